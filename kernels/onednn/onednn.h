// oneDNN as products see it. Included by sources that speak to oneDNN and by nothing else.
#pragma once

#include <oneapi/dnnl/dnnl.hpp>

namespace qtape::kernels {

/// The C++ interface of oneDNN 2 and 3 differs here and nowhere else.
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

}  // namespace qtape::kernels
