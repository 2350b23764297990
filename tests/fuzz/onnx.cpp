// ONNX models: those of other tools and exported programs.
#include "qtape/onnx/export.h"
#include "qtape/onnx/import.h"
#include "qtape/tests/fuzz/seeds.h"
#include "qtape/tests/fuzz/target.h"

namespace {

using namespace qtape;

std::vector<std::string> models() {
  std::vector<std::string> all = fuzz::files("data/onnx", ".onnx");
  std::ranges::move(
      fuzz::written_programs([](const IntegerProgram& program) { return to_onnx(program); }),
      std::back_inserter(all));
  return all;
}

const fuzz::Target target(
    "onnx", [](std::string_view bytes) { (void)parse_onnx(bytes, "x.onnx"); }, models);

}  // namespace
