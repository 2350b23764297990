#include "qtape/tools/qtape/targets.h"

#include <fmt/format.h>

#include <cstdio>

#include "qtape/c99/levels.h"
#include "qtape/onnx/levels.h"
#include "qtape/programs/console/terminal.h"
#include "qtape/tflite/levels.h"

namespace qtape::tool {

// Each in the file of its command. Declared here: a new target changes only this file.
Command add_export_c(CLI::App& app);
Command add_export_onnx(CLI::App& app);
Command add_export_tflite(CLI::App& app);

namespace {

void show_compilation(int64_t compiled, int64_t all) {
  if (compiled == 0) {
    fmt::print(stderr, "qtape: compiling {} files of TensorFlow Lite Micro\n", all);
  }
  console::redraw(compiled == all ? "" : fmt::format("compiling: {} of {}", compiled, all));
}

}  // namespace

std::span<const Target> targets() {
  static const Target all[] = {
      {add_export_c, [](const VerifiedFile&) { return c_levels(); }},
      {add_export_onnx, [](const VerifiedFile&) { return onnx_levels(); }},
      {add_export_tflite, [](const VerifiedFile& file) {
         return tflite_levels({.model = file.tflite, .progress = show_compilation});
       }}};
  return all;
}

}  // namespace qtape::tool
