// oneDNN as products and convolutions see it. Included by sources that speak to oneDNN and by
// nothing else.
#pragma once

#include <oneapi/dnnl/dnnl.hpp>

namespace qtape::kernels {

/// Whether oneDNN uses this instruction set here.
inline bool onednn_has(dnnl_cpu_isa_t wanted) {
  // Each instruction set's value has the bits of those that it contains.
  return (dnnl_get_effective_cpu_isa() & wanted) == wanted;
}

/// The C++ interfaces of oneDNN 2 and 3 differ in these functions and nowhere else.
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

/// What a convolution is described by; `w` may be of any layout.
struct ConvolutionDescription {
  dnnl::memory::desc x, w, y;
  dnnl::memory::dims strides, dilates, begin, end;
};

inline dnnl::convolution_forward::primitive_desc describe_convolution(
    const dnnl::engine& engine, const ConvolutionDescription& c,
    const dnnl::primitive_attr& attributes) {
  constexpr auto kind = dnnl::prop_kind::forward_training;
  constexpr auto algorithm = dnnl::algorithm::convolution_direct;
#if DNNL_VERSION_MAJOR >= 3
  return {engine,    kind,      algorithm, c.x,   c.w,       c.y,
          c.strides, c.dilates, c.begin,   c.end, attributes};
#else
  return {{kind, algorithm, c.x, c.w, c.y, c.strides, c.dilates, c.begin, c.end},
          attributes,
          engine};
#endif
}

/// `Backward` is convolution_backward_data or convolution_backward_weights.
template <class Backward>
typename Backward::primitive_desc describe_convolution_gradient(
    const dnnl::engine& engine, const ConvolutionDescription& c,
    const dnnl::convolution_forward::primitive_desc& forward,
    const dnnl::primitive_attr& attributes) {
  constexpr auto algorithm = dnnl::algorithm::convolution_direct;
#if DNNL_VERSION_MAJOR >= 3
  return {engine,    algorithm, c.x,   c.w,     c.y,       c.strides,
          c.dilates, c.begin,   c.end, forward, attributes};
#else
  return {{algorithm, c.x, c.w, c.y, c.strides, c.dilates, c.begin, c.end},
          attributes,
          engine,
          forward};
#endif
}

}  // namespace qtape::kernels
