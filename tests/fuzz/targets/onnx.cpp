// ONNX models: those of other tools and exported programs.
#include "qtape/onnx/export.h"
#include "qtape/onnx/import.h"
#include "qtape/tests/fuzz/seeds.h"
#include "qtape/tests/fuzz/target.h"
#include "qtape/tests/support/integer_nets.h"

namespace {

using namespace qtape;

/// Returns models of other tools, and exported random nets as far as export has all of their
/// ops and import reads them again.
std::vector<std::string> models() {
  std::vector<std::string> all = fuzz::files("data/onnx", ".onnx");
  const size_t files = all.size();
  for (uint64_t seed = 0; seed < 60; ++seed) {
    test::Settled net(test::any_net(seed), seed);
    try {
      const OnnxExportOptions form{.opset = seed % 2 == 0 ? 13 : 21};
      std::string model = to_onnx(net.program(Requantization::OnnxQdq), form);
      (void)parse_onnx(model, "x.onnx");
      all.push_back(std::move(model));
    } catch (const Error&) {
    }
  }
  fuzz::require_equal(all.size() >= files + 20);
  return all;
}

const fuzz::Target target(
    "onnx", [](std::string_view bytes) { (void)parse_onnx(bytes, "x.onnx"); }, models);

}  // namespace
