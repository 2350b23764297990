#include "qtape/tools/qtape/targets.h"

#include "qtape/c99/levels.h"
#include "qtape/onnx/levels.h"

namespace qtape::tool {

// Each in the file of its command. Declared here: a new target changes only this file.
Command add_export_c(CLI::App& app);
Command add_export_onnx(CLI::App& app);
Command add_export_tflite(CLI::App& app);

std::span<const Target> targets() {
  static const Target all[] = {{add_export_c, c_levels},
                               {add_export_onnx, [] { return onnx_levels(); }},
                               {add_export_tflite, [] { return RunnerFactories(); }}};
  return all;
}

}  // namespace qtape::tool
