// Interface to oneDNN for products and convolutions. Included only by sources that call oneDNN.
#pragma once

#include <cstdint>
#include <oneapi/dnnl/dnnl.hpp>
#include <vector>

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

/// A layout of nested blocks. Element `p` lies at the sum of `strides[axis] * (p[axis] / extent
/// of the blocks along that axis)`, plus its place in the block. Innermost blocks come last.
struct BlockedLayout {
  std::vector<int64_t> extents, padded, strides;
  std::vector<int64_t> block_extents, block_axes;
};

inline dnnl::memory::data_type data_type_of(const dnnl::memory::desc& desc) {
#if DNNL_VERSION_MAJOR >= 3
  return desc.get_data_type();
#else
  return desc.data_type();
#endif
}

/// Throws dnnl::error if the layout is not one of blocks.
inline BlockedLayout blocked_layout(const dnnl::memory::desc& desc) {
  const auto check = [](bool blocked) {
    if (!blocked) throw dnnl::error(dnnl_unimplemented, "filters in an unknown layout");
  };
#if DNNL_VERSION_MAJOR >= 3
  check(desc.get_format_kind() == dnnl::memory::format_kind::blocked);
  return {desc.get_dims(), desc.get_padded_dims(), desc.get_strides(), desc.get_inner_blks(),
          desc.get_inner_idxs()};
#else
  check(desc.data.format_kind == dnnl_blocked);
  const dnnl_blocking_desc_t& blocking = desc.data.format_desc.blocking;
  const auto list = [](const dnnl_dim_t* first, int n) {
    return std::vector<int64_t>(first, first + n);
  };
  const int rank = desc.data.ndims;
  return {list(desc.data.dims, rank), list(desc.data.padded_dims, rank),
          list(blocking.strides, rank), list(blocking.inner_blks, blocking.inner_nblks),
          list(blocking.inner_idxs, blocking.inner_nblks)};
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
