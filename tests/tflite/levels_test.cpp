// Programs and models on TensorFlow Lite Micro, where QTAPE_TFLITE_MICRO names it.
#include "qtape/tflite/levels.h"

#include <doctest/doctest.h>

#include "qtape/deploy/verify.h"
#include "qtape/tests/support/errors.h"
#include "qtape/tests/support/skip.h"
#include "qtape/tests/tflite/random_program.h"
#include "qtape/tflite/export.h"
#include "qtape/tflite/import.h"
#include "qtape/tflite/micro_tree.h"
#include "qtape/tflite/schema.h"

using namespace qtape;
using namespace qtape::test::tflite_programs;
using test::error_text;

namespace {

constexpr const char* no_micro = "QTAPE_TFLITE_MICRO names no TensorFlow Lite Micro";

/// Runs a program and a model of it, by default that of `to_tflite`, on samples that exceed the
/// range of the input.
Verifier verified(const IntegerProgram& program, const std::string& model = {}) {
  Verifier verifier(program, {.batch = 8,
                              .threads = 2,
                              .levels = {tflite_micro_level},
                              .runners = tflite_levels({.model = model})});
  const auto input = verifier.input();
  for (size_t i = 0; i < input.size(); ++i) {
    input[i] = static_cast<float>(static_cast<int>(i * 7919 % 401) - 200) * 0.02f;
  }
  verifier.run(7);
  return verifier;
}

/// Returns the labels of nodes that L8 has no codes of.
std::vector<std::string> without_codes(const Verifier& verifier) {
  std::vector<std::string> labels;
  for (const LayerComparison& each : verifier.layers()) {
    if (!each.differences.contains(tflite_micro_level) && !each.accumulators) {
      labels.push_back(each.label);
    }
  }
  return labels;
}

/// Returns the first difference; empty if there is none.
std::string difference(const Verifier& verifier) {
  if (verifier.mismatches() == 0) return {};
  return verifier.first_mismatch() ? to_string(*verifier.first_mismatch()) : "outputs differ";
}

}  // namespace

TEST_CASE("TensorFlow Lite Micro: all tensors of a program have its codes") {
  if (!tflite::MicroTree::is_given()) return test::skip(no_micro);
  const Verifier verifier = verified(all_layers());
  CHECK(difference(verifier) == "");
  CHECK(without_codes(verifier).empty());
  const auto& first = verifier.layers()[0];
  CHECK(first.compared == 7 * 9 * 8 * 3);
}

TEST_CASE("TensorFlow Lite Micro: random programs, and those that are read again") {
  if (!tflite::MicroTree::is_given()) return test::skip(no_micro);
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    CAPTURE(seed);
    const IntegerProgram program = random_program(seed, static_cast<Codes>(seed % 3));
    CHECK(difference(verified(program)) == "");
    const std::string bytes = to_tflite(program);
    CHECK(difference(verified(parse_tflite(bytes), bytes)) == "");
  }
}

TEST_CASE(
    "TensorFlow Lite Micro: a code that is wrong is found in the layer that computes it") {
  if (!tflite::MicroTree::is_given()) return test::skip(no_micro);
  const std::string bytes = to_tflite(all_layers());
  const IntegerProgram program = parse_tflite(bytes);
  for (const std::string label : {"conv", "depthwise", "pointwise", "wide", "narrow"}) {
    CAPTURE(label);
    tflite::TfliteModel model = tflite::parse_model(bytes);
    for (const tflite::TfliteTensor& each : model.tensors) {
      if (each.name == label + "/weights") model.buffers[each.buffer][0] ^= std::byte{64};
    }
    const Verifier verifier = verified(program, tflite::model_bytes(model));
    REQUIRE(verifier.first_mismatch());
    CHECK(verifier.first_mismatch()->label == label);
    CHECK(verifier.first_mismatch()->second == tflite_micro_level);
  }
}

TEST_CASE("TensorFlow Lite Micro: programs without a model") {
  Layers net(3, {1, 4, 4, 2}, 0.02, 0);
  net.add(integer::AvgPool{AvgPool{.kernel = {3, 1}}}, "sums");
  net.add(integer::Requantize{grid(0.03, 0)}, "means");
  CHECK(error_text<GraphError>([&] { (void)verified(net.finished()); }) ==
        "L8 TFLM: Requantize 'means': divides by 3, expected a power of 2: TensorFlow Lite "
        "rounds 1/3 to f32");
  CHECK(error_text<GraphError>(
            [&] { (void)verified(all_layers(), to_tflite(random_program(1))); }) ==
        "L8 TFLM: the model is not that of the program: x is f32[8, 6, 6, 2], expected f32[8, "
        "9, 8, 3]");
}
