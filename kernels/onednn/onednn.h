// Interface to oneDNN for products and convolutions. Included only by sources that call oneDNN.
#pragma once

#include <oneapi/dnnl/dnnl.hpp>

namespace qtape::kernels {

/// True if oneDNN uses this instruction set on this processor.
inline bool onednn_has(dnnl_cpu_isa_t wanted) {
  // The value of an instruction set includes the bits of those that it contains.
  return (dnnl_get_effective_cpu_isa() & wanted) == wanted;
}

/// The C++ APIs of oneDNN 2 and 3 differ only in these functions.
inline dnnl::matmul::primitive_desc describe_matmul(const dnnl::engine& engine,
                                                    const dnnl::memory::desc& a,
                                                    const dnnl::memory::desc& b,
                                                    const dnnl::memory::desc& c,
                                                    const dnnl::primitive_attr& attributes) {
#if DNNL_VERSION_MAJOR >= 3
  return {engine, a, b, c, attributes};
#else
  return {dnnl::matmul::desc(a, b, c), attributes, engine};
#endif
}

/// Descriptors of a convolution; `w` may have any layout.
struct ConvolutionDescription {
  dnnl::memory::desc x, w, y;
  dnnl::memory::dims strides, dilates, begin, end;
};

/// Advances `pd` to the first implementation whose name `refused` does not reject. oneDNN 2
/// reads the descriptor from which `pd` was created, so it must still exist. Throws dnnl::error
/// if no implementation is left.
template <class Descriptor, class Refused>
void skip_refused(Descriptor& pd, const Refused& refused) {
  while (refused(pd.impl_info_str())) {
    if (!pd.next_impl()) throw dnnl::error(dnnl_unimplemented, "no sound implementation");
  }
}

template <class Refused>
dnnl::convolution_forward::primitive_desc describe_convolution(
    const dnnl::engine& engine, const ConvolutionDescription& c,
    const dnnl::primitive_attr& attributes, const Refused& refused) {
  constexpr auto kind = dnnl::prop_kind::forward_training;
  constexpr auto algorithm = dnnl::algorithm::convolution_direct;
#if DNNL_VERSION_MAJOR >= 3
  dnnl::convolution_forward::primitive_desc pd(
      engine, kind, algorithm, c.x, c.w, c.y, c.strides, c.dilates, c.begin, c.end, attributes);
#else
  const dnnl::convolution_forward::desc description(kind, algorithm, c.x, c.w, c.y, c.strides,
                                                    c.dilates, c.begin, c.end);
  dnnl::convolution_forward::primitive_desc pd(description, attributes, engine);
#endif
  skip_refused(pd, refused);
  return pd;
}

/// `Backward` is convolution_backward_data or convolution_backward_weights.
template <class Backward, class Refused>
typename Backward::primitive_desc describe_convolution_gradient(
    const dnnl::engine& engine, const ConvolutionDescription& c,
    const dnnl::convolution_forward::primitive_desc& forward,
    const dnnl::primitive_attr& attributes, const Refused& refused) {
  constexpr auto algorithm = dnnl::algorithm::convolution_direct;
#if DNNL_VERSION_MAJOR >= 3
  typename Backward::primitive_desc pd(engine, algorithm, c.x, c.w, c.y, c.strides, c.dilates,
                                       c.begin, c.end, forward, attributes);
#else
  const typename Backward::desc description(algorithm, c.x, c.w, c.y, c.strides, c.dilates,
                                            c.begin, c.end);
  typename Backward::primitive_desc pd(description, attributes, engine, forward);
#endif
  skip_refused(pd, refused);
  return pd;
}

}  // namespace qtape::kernels
