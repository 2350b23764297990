#include "qtape/c99/cmsis_nn.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "qtape/c99/c_grid.h"
#include "qtape/c99/c_library.h"
#include "qtape/core/error.h"

namespace qtape {
namespace {

namespace fs = std::filesystem;

constexpr const char* variable = "QTAPE_CMSIS_NN";

/// Folders of Source with the functions that exported C calls, and those that they call. Float
/// functions in them are excluded because they need other headers.
constexpr std::string_view folders[] = {"ActivationFunctions",  "BasicMathFunctions",
                                        "ConvolutionFunctions", "FullyConnectedFunctions",
                                        "NNSupportFunctions",   "PoolingFunctions",
                                        "TransposeFunctions"};

std::string path_of_environment() {
  const char* path = std::getenv(variable);
  return path == nullptr ? "" : path;
}

}  // namespace

bool CmsisNn::is_given() { return !path_of_environment().empty(); }

CmsisNn CmsisNn::of_environment(Requantization requantization) {
  const std::string path = path_of_environment();
  require<Error>(!path.empty(), "{} must name a source tree of CMSIS-NN", variable);
  const fs::path root = path;
  std::error_code missing;
  require<Error>(fs::exists(root / "Include" / "arm_nnfunctions.h", missing),
                 "{}: {} has no Include/arm_nnfunctions.h", variable, path);
  CmsisNn found;
  // As a system header its warnings are suppressed.
  found.flags = {"-isystem", (root / "Include").string()};
  if (cmsis_single_rounding(requantization).value_or(false)) {
    found.flags.emplace_back("-DCMSIS_NN_USE_SINGLE_ROUNDING");
  }
  for (std::string_view folder : folders) {
    for (const auto& entry : fs::directory_iterator(root / "Source" / folder, missing)) {
      const std::string name = entry.path().filename().string();
      if (!name.ends_with(".c") || name.find("_f16") != std::string::npos ||
          name.find("_f32") != std::string::npos) {
        continue;
      }
      found.sources.push_back(entry.path().string());
    }
  }
  std::ranges::sort(found.sources);
  require<Error>(!found.sources.empty(), "{}: {} has no sources", variable, path);
  return found;
}

void add_cmsis_nn(CCompiler& compiler, Requantization requantization) {
  CmsisNn library = CmsisNn::of_environment(requantization);
  compiler.flags.insert(compiler.flags.end(), library.flags.begin(), library.flags.end());
  compiler.sources = std::move(library.sources);
}

}  // namespace qtape
