#include "qtape/kernels/onednn/onednn_build.h"

#include <fmt/format.h>

#include "qtape/kernels/onednn/onednn.h"

namespace qtape::kernels {

std::string onednn_version() {
  const dnnl_version_t& version = *dnnl_version();
  return fmt::format("{}.{}.{}", version.major, version.minor, version.patch);
}

std::string onednn_isa() {
  return fmt::format("{:#x}", static_cast<unsigned>(dnnl_get_effective_cpu_isa()));
}

}  // namespace qtape::kernels
