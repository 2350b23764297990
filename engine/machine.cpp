#include "qtape/engine/machine.h"

#include <fmt/format.h>

#include <fstream>

#include "qtape/core/isa.h"
#include "qtape/kernels/onednn/onednn_build.h"

namespace qtape {
namespace {

/// Returns the model of the processor: its name on x86-64; on ARM, for which Linux lists no
/// names, the numbers of implementer and part; on s390x what the first processor says of
/// itself.
std::string processor() {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  std::string implementer;
  while (std::getline(file, line)) {
    const size_t colon = line.find(": ");
    if (colon == std::string::npos) continue;
    const std::string value = line.substr(colon + 2);
    if (line.starts_with("model name") || line.starts_with("processor 0:")) return value;
    if (line.starts_with("CPU implementer")) implementer = value;
    if (line.starts_with("CPU part")) {
      return fmt::format("ARM implementer {}, part {}", implementer, value);
    }
  }
  return "unknown";
}

}  // namespace

Machine machine() {
  return {.processor = processor(),
          .isa = std::string(to_string_view(qtape::isa())),
          .onednn = kernels::onednn_version(),
          .onednn_isa = kernels::onednn_isa(),
          .qtape = fmt::format("{}, {}", QTAPE_VERSION, __VERSION__)};
}

}  // namespace qtape
