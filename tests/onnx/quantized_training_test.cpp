// Quantized ONNX models that are trained further, and verified afterwards.
#include <doctest/doctest.h>

#include "qtape/deploy/verify.h"
#include "qtape/model/fit.h"
#include "qtape/model/recipe.h"
#include "qtape/tests/onnx/quantized_models.h"
#include "qtape/tests/support/folder.h"
#include "qtape/tests/support/integer_nets.h"
#include "qtape/tests/support/small_fit.h"

using namespace qtape;
using namespace qtape::test::onnx_models;

namespace {

/// Returns a classifier of digits with weights of 4 bits, between quantizers.
OnnxModel classifier() {
  constexpr int64_t in = 784, out = 10;
  Extents codes;
  for (int64_t i = 0; i < in * out; ++i) codes.push_back(i * 7 % 15 - 7);
  OnnxModel model({-1, in}, 21);
  model.floats("xs", {}, {1 / 255.0f})
      .codes("xz", {}, {0}, u8)
      .codes("fc.weight_quantized", {out, in}, codes, onnx_int4)
      .floats("ws", {out}, Numbers(out, 0.01f))
      .codes("wz", {out}, Extents(out), onnx_int4)
      .codes("fc.bias_quantized", {out}, Extents(out), s32)
      .floats("bs", {out}, Numbers(out, 0.01f / 255))
      .floats("ys", {}, {0.125f})
      .codes("yz", {}, {0}, s8)
      .rounded("x", "xs", "xz", "a")
      .dequantized({"fc.weight_quantized", "ws", "wz"}, "w", 0)
      .dequantized({"fc.bias_quantized", "bs"}, "fc.bias", 0)
      .node("Gemm", {"a", "w", "fc.bias"}, {"sum"})
      .with("transB", 1)
      .rounded("sum", "ys", "yz");
  return model;
}

}  // namespace

TEST_CASE("onnx quantized: an imported model learns, and its program agrees in every bit") {
  const data::Split& digits = test::small_digits();
  Model model = with_loss(Model(classifier().imported()), digits.train);
  const double before = accuracy(model, digits.test);
  (void)fit(model, digits.train, test::quiet(3));
  CHECK(accuracy(model, digits.test) > before);
  const test::Folder folder;
  model.save(folder.file("m.json"));
  const Model loaded = Model::load(folder.file("m.json"));
  CHECK(loaded.parameters().get("quantized.scale") ==
        Tensor::of<float>({1}, std::vector<float>{1 / 255.0f}));
  Verifier verifier(loaded.graph(), loaded.parameters(),
                    {.convert = {.requantization = Requantization::OnnxQdq},
                     .batch = 16,
                     .levels = {Level::Exact, Level::Reference, Level::Backend}});
  test::fill_uniform(verifier.input(), Random(1, 0));
  verifier.run(16);
  CHECK(test::mismatch(verifier) == "");
}
