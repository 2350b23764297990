// BatchNorm and BatchNormCorrection apart from values and gradients: updates and use of the
// running statistics, and invalid batches.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "qtape/engine/tape.h"
#include "qtape/model/layers.h"
#include "qtape/tests/support/errors.h"
#include "qtape/tests/support/op_run.h"

using namespace qtape;
using test::error_text;
using test::Values;

namespace {

/// Fills an input with the random numbers of a step.
template <class T>
void feed(Tape& tape, const char* label, uint64_t step) {
  const auto x = tape.input<T>(label);
  const Values values = test::random_values(static_cast<int64_t>(x.size()), 40 + step);
  std::ranges::transform(values, x.begin(), [](double v) { return static_cast<T>(3 * v + 1); });
}

Values numbers(const Parameters& parameters, const std::string& name) {
  const ParameterEntry& entry = parameters.at(name);
  return dispatch_compute(entry.type.dtype, [&]<class T>() {
    const auto values = entry.values<T>();
    return Values(values.begin(), values.end());
  });
}

/// True if two lists agree within `error` relative to max(1, |number|).
bool near(const Values& a, const Values& b, double error) {
  return std::ranges::equal(a, b, [&](double x, double y) {
    return std::fabs(x - y) <= error * std::max(1.0, std::fabs(y));
  });
}

struct Net {
  Graph graph;
  NodeId y;
};

Net norm_net(DType dtype, const Shape& x, const BatchNorm& op = {}) {
  Net net;
  const NodeId input = net.graph.add(Input{.dtype = dtype, .shape = x}, {}, "x");
  net.y = batch_norm(net.graph, input, {.op = op, .label = "norm"});
  net.graph.set_outputs({net.y});
  return net;
}

/// A layer without quantizers and its batch norm, separate or folded.
Net layer_net(bool folded, const BatchNorm& op, int64_t batch = 9) {
  Net net;
  const NodeId x = net.graph.add(Input{.dtype = DType::F64, .shape = {batch, 4}}, {}, "x");
  LayerOptions options{.out = 3, .bias = false, .label = folded ? "norm" : "product"};
  if (folded) options.folded_norm = op;
  net.y = linear(net.graph, x, options);
  if (!folded) net.y = batch_norm(net.graph, net.y, {.op = op, .label = "norm"});
  net.graph.set_outputs({net.y});
  return net;
}

std::string too_few(int64_t elements) {
  return ": statistics of a batch need at least 2 elements of each channel, got " +
         std::to_string(elements) + ": use larger batches, or freeze norms from the first step";
}

}  // namespace

TEST_CASE("batch norm: running statistics are weighted means of those of batches") {
  for (DType dtype : {DType::F32, DType::F64}) {
    const double error = dtype == DType::F32 ? 1e-6 : 1e-14;
    const Net net = norm_net(dtype, {5, 2, 3}, {.momentum = 0.25});
    Parameters parameters(net.graph, 1);
    Tape tape(net.graph, parameters, {});
    Values mean(3, 0.0);
    Values variance(3, 1.0);
    for (uint64_t step = 0; step < 3; ++step) {
      dispatch_compute(dtype, [&]<class T>() { feed<T>(tape, "x", step); });
      const Values x = dispatch_compute(dtype, [&]<class T>() {
        const auto values = tape.input<T>("x");
        return Values(values.begin(), values.end());
      });
      tape.forward(step == 1 ? mode::qat : mode::float_train);
      for (size_t c = 0; c < 3; ++c) {
        double sum = 0;
        for (size_t i = c; i < 30; i += 3) sum += x[i];
        double squares = 0;
        for (size_t i = c; i < 30; i += 3) squares += (x[i] - sum / 10) * (x[i] - sum / 10);
        mean[c] = 0.75 * mean[c] + 0.25 * sum / 10;
        variance[c] = 0.75 * variance[c] + 0.25 * squares / 9;
      }
      CHECK(near(numbers(parameters, "norm.running_mean"), mean, error));
      CHECK(near(numbers(parameters, "norm.running_var"), variance, error));
      CHECK(tape.status(net.y).applied);
    }
  }
}

TEST_CASE("batch norm: running statistics count, and stay, where those of the batch do not") {
  const Net net = norm_net(DType::F32, {5, 3});
  Parameters parameters(net.graph, 1);
  Tape tape(net.graph, parameters, {.schedule = {.freeze_norms = 2}});
  feed<float>(tape, "x", 0);
  tape.forward(mode::qat);
  const std::string before = parameters.sha256();
  const auto value = [&] {
    const auto y = tape.value<float>(net.y);
    return std::vector<float>(y.begin(), y.end());
  };
  feed<float>(tape, "x", 1);
  tape.forward(mode::eval);
  const auto expected = value();
  CHECK(!tape.status(net.y).applied);
  for (const Mode& mode : {mode::observe, mode::float_eval}) {
    tape.forward(mode);
    CHECK(value() == expected);
  }
  tape.status(net.y).observing = false;
  tape.forward(mode::qat);
  CHECK(value() == expected);
  tape.status(net.y).observing = true;
  CHECK(parameters.sha256() == before);
  // Step 2, from which the schedule freezes the norms.
  for (const Mode& mode : {mode::qat, mode::float_train}) {
    tape.forward(mode);
    CHECK(value() == expected);
    CHECK(parameters.sha256() == before);
  }
  tape.set_step(1);
  tape.forward(mode::qat);
  CHECK(value() != expected);
  CHECK(parameters.sha256() != before);
}

TEST_CASE("batch norm: one element of a channel has no statistics, and counts in evaluation") {
  struct Case {
    Shape shape;
    int elements;
  };
  for (const Case& each : {Case{{1, 3}, 1}, Case{{1, 1, 1, 3}, 1}, Case{{0, 3}, 0}}) {
    const Net net = norm_net(DType::F32, each.shape);
    Parameters parameters(net.graph, 1);
    const std::string before = parameters.sha256();
    Tape tape(net.graph, parameters, {});
    const std::string name = net.graph.describe(net.y);
    CHECK(error_text<GraphError>([&] { tape.forward(mode::qat); }) ==
          name + too_few(each.elements));
    CHECK(parameters.sha256() == before);
    std::ranges::fill(tape.input<float>("x"), 2.0f);
    tape.forward(mode::eval);
    const auto y = tape.value<float>(net.y);
    const auto expected = static_cast<float>(2 / std::sqrt(1 + 1e-5));
    CHECK(std::ranges::all_of(y, [&](float v) { return v == expected; }));
  }
  const Net folded = layer_net(true, {}, 1);
  Parameters parameters(folded.graph, 1);
  Tape tape(folded.graph, parameters, {});
  CHECK(error_text<GraphError>([&] { tape.forward(mode::qat); }) ==
        folded.graph.describe(folded.y) + too_few(1));
  tape.forward(mode::eval);
}

TEST_CASE("batch norm: batches that are not finite leave the running statistics of a channel") {
  const Net net = norm_net(DType::F32, {4, 2});
  Parameters parameters(net.graph, 1);
  Tape tape(net.graph, parameters, {});
  feed<float>(tape, "x", 0);
  tape.input<float>("x")[2] = std::numeric_limits<float>::infinity();
  tape.forward(mode::qat);
  CHECK(numbers(parameters, "norm.running_mean")[0] == 0);
  CHECK(numbers(parameters, "norm.running_var")[0] == 1);
  CHECK(numbers(parameters, "norm.running_mean")[1] != 0);
}

TEST_CASE(
    "batch norm: gamma = 0 gives beta, and learns again unless it is folded in training") {
  for (bool folded : {false, true}) {
    CAPTURE(folded);
    const Net net = layer_net(folded, {});
    Parameters parameters(net.graph, 1);
    parameters.at("norm.gamma").values<double>()[1] = 0;
    std::ranges::fill(parameters.at("norm.beta").values<double>(), 0.5);
    Tape tape(net.graph, parameters, {.roots = {net.y}});
    feed<double>(tape, "x", 0);
    for (const Mode& mode : {mode::qat, mode::eval}) {
      const bool dead = folded && mode.batch_statistics;
      tape.forward(mode);
      const auto y = tape.value<double>(net.y);
      for (size_t i = 0; i < y.size(); ++i) CHECK((y[i] == 0.5) == (i % 3 == 1));
      const Values dy = test::random_values(27, 5);
      tape.backward(net.y, std::span<const double>(dy));
      const auto gradient = parameters.at("norm.gamma").gradients<double>();
      CHECK((gradient[1] == 0) == dead);
      CHECK(gradient[0] != 0);
      CHECK(parameters.at("norm.beta").gradients<double>()[1] != 0);
    }
    CHECK((numbers(parameters, "norm.running_var")[1] == 1) == folded);
  }
}

TEST_CASE("batch norm: folded without quantizers it is the batch norm after the layer") {
  const BatchNorm op{.momentum = 0.3, .eps = 1e-3};
  const Net apart = layer_net(false, op);
  const Net folded = layer_net(true, op);
  Parameters a(apart.graph, 1);
  Parameters b(folded.graph, 1);
  const Values weights = test::random_values(12, 3);
  std::ranges::copy(weights, a.at("product.weight").values<double>().begin());
  std::ranges::copy(weights, b.at("norm.weight").values<double>().begin());
  for (Parameters* each : {&a, &b}) {
    const auto gamma = each->at("norm.gamma").values<double>();
    gamma[0] = -0.7;
    gamma[2] = 1e-3;
    each->at("norm.beta").values<double>()[1] = 0.4;
  }
  Tape first(apart.graph, a, {.roots = {apart.y}, .schedule = {.freeze_norms = 3}});
  Tape second(folded.graph, b, {.roots = {folded.y}, .schedule = {.freeze_norms = 3}});
  for (uint64_t step = 0; step < 5; ++step) {
    CAPTURE(step);
    const Values dy = test::random_values(27, 70 + step);
    for (Tape* tape : {&first, &second}) {
      feed<double>(*tape, "x", step);
      tape->forward(mode::qat);
      tape->backward(tape->graph().outputs()[0], std::span<const double>(dy));
    }
    const auto y = first.value<double>(apart.y);
    const auto z = second.value<double>(folded.y);
    CHECK(near({y.begin(), y.end()}, {z.begin(), z.end()}, 1e-11));
    for (const char* name : {"norm.running_mean", "norm.running_var"}) {
      CHECK(near(numbers(a, name), numbers(b, name), 1e-12));
    }
    const auto gradient = [](const Parameters& parameters, const char* name) {
      const auto values = parameters.at(name).gradients<double>();
      return Values(values.begin(), values.end());
    };
    for (const char* name : {"norm.gamma", "norm.beta"}) {
      CAPTURE(name);
      CHECK(near(gradient(a, name), gradient(b, name), 1e-8));
    }
    CHECK(near(gradient(a, "product.weight"), gradient(b, "norm.weight"), 1e-9));
  }
}
