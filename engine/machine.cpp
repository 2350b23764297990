#include "qtape/engine/machine.h"

#include <fmt/format.h>

#include <fstream>

#include "qtape/core/isa.h"
#include "qtape/kernels/onednn/onednn_build.h"

namespace qtape {
namespace {

std::string processor() {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line)) {
    const size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) {
      return line.substr(colon + 2);
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
