// Weights that are multiplied by the factors of norms: codes that stay, oscillations.
#include "qtape/model/weight_codes.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "qtape/engine/quantizers.h"
#include "qtape/model/fit.h"
#include "qtape/model/norms.h"
#include "qtape/tests/support/small_fit.h"

using namespace qtape;
using test::quiet;
using test::small_digits;

namespace {

/// A network whose convolution has weights of 3 bits and a folded norm.
Model with_norm(const Op& weights) {
  Network net;
  const Value h = conv2d(net.input("x", {28, 28, 1}), 4, {5, 5},
                         {.weights = weights, .norm = true}, {.stride = {3, 3}});
  return {linear(flatten(relu(h)), 10), loss::cross_entropy};
}

/// Returns w r / s of each weight, computed from the formulas.
std::vector<double> quotients(const Model& model) {
  const Parameters& values = model.parameters();
  const auto at = [&](const char* name) { return values.at(name).values<float>(); };
  const auto scales =
      qparams(model.graph(), values, model.graph().at("conv1.weight.quantized"));
  std::vector<double> result;
  for (const float w : at("conv1.weight")) {
    const size_t c = result.size() / 25;
    const double r = at("conv1.gamma")[c] / std::sqrt(at("conv1.running_var")[c] + 1e-5);
    result.push_back(w * r / scales[scales.size() == 1 ? 0 : c].scale);
  }
  return result;
}

double distance(const std::vector<double>& quotients) {
  double sum = 0;
  for (const double each : quotients) sum += std::fabs(each - std::nearbyint(each));
  return sum / static_cast<double>(quotients.size());
}

/// Largest difference between quotients before and after norms are re-estimated.
double change_by_norms(const Op& weights) {
  Model model = with_norm(weights);
  (void)fit(model, small_digits().train, quiet(2));
  const std::vector<double> before = quotients(model);
  const Tensor variance = model.parameters().get("conv1.running_var");
  CHECK(reestimate_norms(model, small_digits().train, 5) == 1);
  CHECK(model.parameters().get("conv1.running_var") != variance);
  const std::vector<double> after = quotients(model);
  double most = 0;
  for (size_t i = 0; i < before.size(); ++i)
    most = std::max(most, std::fabs(after[i] - before[i]));
  return most;
}

}  // namespace

TEST_CASE("weight codes: they stay while norms are re-estimated, with a scale by channel") {
  CHECK(change_by_norms(FakeQuantizeLSQ{.bits = 3, .axis = 0}) < 1e-4);
  CHECK(change_by_norms(FakeQuantize{.bits = 3, .axis = 0, .scale_mode = EMA{}}) < 1e-4);
  CHECK(change_by_norms(FakeQuantizeLSQ{.bits = 3}) > 1e-4);
}

TEST_CASE("weight codes: in a step they move by the gradient alone") {
  Model model = with_norm(FakeQuantizeLSQ{.bits = 3, .axis = 0});
  (void)fit(model, small_digits().train, quiet(1));
  const std::vector<double> before = quotients(model);
  const auto variance = model.parameters().get("conv1.running_var");
  FitOptions options = quiet(1);
  options.learning_rate = 0;
  options.quantization = QuantizationSchedule{};
  (void)fit(model, small_digits().train, options);
  CHECK(model.parameters().get("conv1.running_var") != variance);
  const std::vector<double> after = quotients(model);
  for (size_t i = 0; i < before.size(); ++i) CHECK(std::fabs(after[i] - before[i]) < 1e-4);
}

TEST_CASE("weight codes: scales follow variances, not gamma, and marks of zeros stay") {
  Model model = with_norm(FakeQuantizeLSQ{.bits = 3, .axis = 0});
  constexpr float mark = std::numeric_limits<float>::min();
  const std::vector<float> scales = {mark, 0.5f, 2.0f, 0};
  model.set<float>("conv1.weight.scale", scales);
  WeightCodes codes(model.graph());
  codes.remember(model.parameters());
  model.set<float>("conv1.gamma", std::vector<float>{1, -1, 0, 1e-6f});
  codes.keep(model.parameters(), false);
  CHECK(model.parameters().get("conv1.weight.scale") == Tensor::of<float>({4}, scales));
  const double eps = 1e-5;
  model.set<float>("conv1.running_var", std::vector<float>(4, static_cast<float>(4 + 3 * eps)));
  codes.keep(model.parameters(), true);
  const auto after = model.parameters().at("conv1.weight.scale").values<float>();
  CHECK(after[0] == mark);
  CHECK(after[1] == doctest::Approx(0.25));
  CHECK(after[2] == doctest::Approx(1));
  CHECK(after[3] == 0);
}

TEST_CASE("oscillations: weights times the factor of a norm are damped and frozen") {
  const auto trained = [](const Oscillations& oscillations, int64_t* frozen = nullptr) {
    Model model = with_norm(FakeQuantizeLSQ{.bits = 3, .axis = 0});
    FitOptions options = quiet(4);
    options.learning_rate = 0.02;
    options.oscillations = oscillations;
    const FitResult result = fit(model, small_digits().train, options);
    if (frozen) *frozen = result.frozen_weights;
    return quotients(model);
  };
  CHECK(distance(trained({.damping = 1})) < 0.7 * distance(trained({})));
  int64_t frozen = 0;
  const std::vector<double> codes = trained({.freeze_above = 0.02, .momentum = 0.2}, &frozen);
  CHECK(frozen > 0);
  CHECK(std::ranges::count_if(codes, [](double each) {
          return std::fabs(each - std::nearbyint(each)) < 1e-2;
        }) >= frozen);
}
