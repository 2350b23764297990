// Bits per layer within a budget.
#include "qtape/model/bit_search.h"

#include <doctest/doctest.h>

#include "qtape/engine/quantizers.h"
#include "qtape/tests/support/errors.h"
#include "qtape/tests/support/small_fit.h"

using namespace qtape;

namespace {

Model trained_model() {
  Network net;
  const Value h = relu(linear(net.input("x", {784}), 16));
  Model model(linear(relu(linear(h, 12)), 10), loss::cross_entropy);
  (void)fit(model, data::example_digits(1280).train, test::quiet(6));
  return model;
}

/// Returns the least sum of losses within the budget, by exhaustive search.
double least(const std::vector<LayerSearch>& layers, int64_t budget) {
  double best = 1e300;
  const size_t n = layers[0].losses.size();
  size_t all = 1;
  for (size_t i = 0; i < layers.size(); ++i) all *= n;
  for (size_t code = 0; code < all; ++code) {
    int64_t bytes = 0;
    double loss = 0;
    size_t rest = code;
    for (const LayerSearch& layer : layers) {
      bytes += layer.bytes[rest % n];
      loss += layer.losses[rest % n];
      rest /= n;
    }
    if (bytes <= budget) best = std::min(best, loss);
  }
  return best;
}

}  // namespace

TEST_CASE("bit search: the bits are the best ones within the budget") {
  const Model model = trained_model();
  const data::Dataset digits = data::example_digits(1280).train;
  const int64_t elements = 16 * 784 + 12 * 16 + 10 * 12;
  for (const int64_t budget : {elements, elements / 2, elements / 2 - 100, elements / 4 + 60}) {
    CAPTURE(budget);
    const BitSearch found = search_bits(
        model, digits,
        {.budget = budget, .recipe = {.activation_bits = 6}, .samples = 500, .threads = 1});
    CHECK(found.bytes <= budget);
    double sum = 0;
    for (const LayerSearch& layer : found.layers) sum += layer.losses[layer.chosen];
    CHECK(sum == doctest::Approx(least(found.layers, budget)));
    const Model chosen = quantized(model, found.recipe, digits);
    int64_t bytes = 0;
    for (const LayerSearch& layer : found.layers) {
      const NodeId id = chosen.graph().at(layer.weight + ".quantized");
      const int32_t most = grid_of(chosen.graph(), id).limits.q_max;
      bytes += weight_bytes(layer.elements, most == 1 ? 2 : most == 7 ? 4 : 8);
    }
    CHECK(bytes == found.bytes);
  }
}

TEST_CASE("bit search: what cannot be is refused") {
  const Model model = trained_model();
  const data::Dataset digits = data::example_digits(64).train;
  CHECK(test::error_text<ArgumentError>([&] {
          (void)search_bits(model, digits, {.budget = 100, .samples = 64});
        }) == "a budget of 100 bytes is too small: the weights take at least 3214");
  CHECK(test::error_text<ArgumentError>([&] {
          (void)search_bits(model, {}, {.budget = 10000});
        }) == "a search needs samples, the data set has none");
  CHECK(test::error_text<ArgumentError>([&] {
          (void)search_bits(model, digits, {.budget = 100000, .candidates = {9}});
        }) == "weights of integer programs have 2 to 8 bits, not 9");
  const auto refused = [&](const QuantizationRecipe& recipe) {
    return test::error_text<ArgumentError>(
        [&] { (void)search_bits(model, digits, {.budget = 10000, .recipe = recipe}); });
  };
  CHECK(
      refused({.layers = {{.pattern = "fc1.*"}}}) ==
      "a search chooses the bits of layers: expected a recipe without layers, got one with 1");
  CHECK(refused({.ends_bits = 8}) ==
        "a search chooses the bits of the first and the last layer: expected a recipe without "
        "bits of these, got 8");
  Network net;
  const Model plain(linear(net.input("x", {784}), 10));
  CHECK(test::error_text<GraphError>([&] {
          (void)search_bits(plain, digits, {.budget = 10000});
        }) == "the model has no loss to measure");
}
