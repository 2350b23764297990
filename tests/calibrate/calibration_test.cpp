// Calibration of whole graphs: observers filled by float passes, and states set from observers.
#include "qtape/calibrate/calibration.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "qtape/engine/quantizers.h"
#include "qtape/kernels/quantize/quantize.h"
#include "qtape/model/layers.h"
#include "qtape/model/passes/insert_quantizers.h"
#include "qtape/tests/support/errors.h"
#include "qtape/tests/support/models.h"
#include "qtape/tests/support/small_nets.h"

using namespace qtape;
using namespace qtape::kernels;
using test::error_text;

namespace {

const FakeQuantize weight{.bits = 4, .axis = 0, .scale_mode = Fixed{}};
const FakeQuantize input{
    .bits = 4, .range = CodeRange::Unsigned, .scheme = Scheme::Affine, .scale_mode = Fixed{}};

/// Two linear layers on x [8, 6], with Fixed quantizers.
Graph make_graph() {
  Graph graph;
  NodeId y = graph.add(Input{.shape = {8, 6}}, {}, "x");
  y = linear(graph, y,
             {.out = 5, .weight_quantizer = weight, .input_quantizer = input, .label = "fc1"});
  y = graph.add(Relu{}, {y});
  y = linear(graph, y,
             {.out = 3, .weight_quantizer = weight, .input_quantizer = input, .label = "fc2"});
  graph.set_outputs({y});
  return graph;
}

float value_at(int64_t batch, size_t i) {
  return std::sin(static_cast<float>(i) * 0.7f + static_cast<float>(batch));
}

/// `count` batches of a fixed wave, with `spoiled` NaN elements in each.
BatchSource wave(int64_t count, size_t spoiled = 0) {
  return [count, spoiled](Tape& tape, int64_t index) {
    const auto x = tape.input<float>("x");
    for (size_t i = 0; i < x.size(); ++i) {
      x[i] = i < spoiled ? std::numeric_limits<float>::quiet_NaN() : value_at(index, i);
    }
    return index < count;
  };
}

/// Returns the scale of the input of fc2 for the values that follow the quantized input of fc1
/// alone.
double kept_range(const Graph& graph, Parameters& parameters, const BatchSource& batches) {
  const NodeId x = graph[graph.at("fc2.input.quantized")].operands[0];
  Tape tape(graph, parameters, {.outputs = {x}, .threads = 1});
  for (const NodeId id : quantizers(graph)) tape.status(id).enabled = false;
  tape.status(graph.at("fc1.input.quantized")).enabled = true;
  ValueRange<float> range;
  for (int64_t batch = 0; batches(tape, batch); ++batch) {
    tape.forward(mode::eval);
    for (const float v : tape.value<float>(x)) range.merge({v, v});
  }
  return double{qparams_of(range, grid_of(input)).scale};
}

}  // namespace

TEST_CASE("calibrate: states hold what the data's range gives, weights included") {
  const Graph graph = make_graph();
  Parameters parameters(graph, 3);
  Tape tape(graph, parameters, {.threads = 1});
  int64_t heard = 0;
  const auto results = calibrate(tape, wave(5), {.on_batch = [&](const CalibrationProgress& p) {
                                   CHECK(p.batch == ++heard);
                                   CHECK(p.stage == "observe");
                                 }});
  CHECK(heard == 5);
  REQUIRE(results.size() == 4);
  CHECK(results[0].label == "fc1.input.quantized");
  ValueRange<float> range;
  for (int64_t b = 0; b < 5; ++b) {
    for (size_t i = 0; i < 48; ++i) range.merge({value_at(b, i), value_at(b, i)});
  }
  const QParams<float> expected = qparams_of(range, grid_of(input));
  CHECK(results[0].qparams ==
        std::vector<QParams<double>>{{double{expected.scale}, double{expected.zero_point}}});
  const auto weights = parameters.at("fc1.weight").values<float>();
  const NodeId node = graph.at("fc1.weight.quantized");
  for (size_t row = 0; row < 5; ++row) {
    float largest = 0;
    for (float v : weights.subspan(row * 6, 6)) largest = std::max(largest, std::fabs(v));
    CHECK(qparams(graph, parameters, node)[row].scale == double{largest / 7});
  }
  tape.input<float>("x")[0] = 1;
  tape.forward(mode::eval);
}

TEST_CASE("calibrate: running averages and learned scales are filled as well") {
  Graph graph;
  const NodeId x = graph.add(Input{.shape = {8, 6}}, {}, "x");
  NodeId y = add_quantizer(graph, x, FakeQuantize{.scale_mode = EMA{}}, "ema");
  y = add_quantizer(
      graph, y,
      FakeQuantize{.scheme = Scheme::Affine, .scale_mode = EMA{.track = Track::Range}},
      "range");
  y = add_quantizer(graph, y, FakeQuantizeLSQ{}, "lsq");
  y = add_quantizer(graph, y, FakeQuantizePACT{.range = CodeRange::Narrow}, "pact");
  y = add_quantizer(graph, y, FakeQuantize{}, "batch");
  graph.set_outputs({y});
  Parameters parameters(graph, 3);
  Tape tape(graph, parameters, {.threads = 1});
  const auto results = calibrate(tape, wave(3));
  CHECK(results.size() == 4);
  float largest = 0;
  for (int64_t b = 0; b < 3; ++b) {
    for (size_t i = 0; i < 48; ++i) largest = std::max(largest, std::fabs(value_at(b, i)));
  }
  CHECK(parameters.at("ema.scale").values<float>()[0] == largest / 127);
  CHECK(parameters.at("range.range").values<float>()[1] <= largest);
  CHECK(parameters.at("lsq.scale").values<float>()[0] == largest / 127);
  CHECK(parameters.at("pact.alpha").values<float>()[0] == largest);
}

TEST_CASE("calibrate: learned scales of few bits start by their own rule") {
  Graph graph;
  const NodeId x = graph.add(Input{.shape = {8, 6}}, {}, "x");
  const FakeQuantizeLSQ affine{
      .bits = 2, .range = CodeRange::Unsigned, .scheme = Scheme::Affine};
  NodeId y = linear(graph, x,
                    {.out = 5,
                     .weight_quantizer = FakeQuantizeLSQ{.bits = 2, .axis = 0},
                     .input_quantizer = affine,
                     .label = "fc"});
  y = add_quantizer(graph, y, FakeQuantizeLSQ{.bits = 5}, "wide");
  graph.set_outputs({y});
  Parameters parameters(graph, 3);
  Tape tape(graph, parameters, {.threads = 1});
  (void)calibrate(tape, wave(4));
  double above = 0, below = 0, low = 0, high = 0;
  for (int64_t b = 0; b < 4; ++b) {
    for (size_t i = 0; i < 48; ++i) {
      const double v{value_at(b, i)};
      (v > 0 ? above : below) += std::fabs(v);
      low = std::min(low, v);
      high = std::max(high, v);
    }
  }
  const double sum = above + below;
  const double scale =
      std::min(2 * sum / 192 / std::sqrt(3 * std::max(above, below) / sum), (high - low) / 3);
  CHECK(parameters.at("fc.input.scale").values<float>()[0] == doctest::Approx(scale));
  CHECK(parameters.at("fc.input.zero_point").values<float>()[0] ==
        std::nearbyintf(static_cast<float>(3 * below / sum)));
  const auto weights = parameters.at("fc.weight").values<float>();
  for (size_t row = 0; row < 5; ++row) {
    double magnitudes = 0;
    for (float v : weights.subspan(row * 6, 6)) magnitudes += std::fabs(v);
    CHECK(parameters.at("fc.weight.scale").values<float>()[row] ==
          doctest::Approx(2 * magnitudes / 6));
  }
  const auto scales = parameters.get("fc.weight.scale");
  // From 5 bits on the default is the range; a requested method takes precedence.
  const auto all = calibrate(tape, wave(4), {.method = MinMax{}});
  CHECK(all.back().qparams[0].scale == parameters.at("wide.scale").values<float>()[0]);
  float largest = 0;
  for (float v : weights.first(6)) largest = std::max(largest, std::fabs(v));
  CHECK(parameters.at("fc.weight.scale").values<float>()[0] == largest);
  const auto usual = calibrate(tape, wave(4));
  CHECK(usual.back().method == ObserverMethod(MinMax{}));
  CHECK(usual.front().method == ObserverMethod(Lsq{}));
  CHECK(parameters.get("fc.weight.scale").data == scales.data);
}

TEST_CASE("calibrate: names choose methods, the first match wins") {
  const Graph graph = make_graph();
  Parameters parameters(graph, 3);
  Tape tape(graph, parameters, {.threads = 1});
  const auto results =
      calibrate(tape, wave(2),
                {.method = Percentile{.percent = 50},
                 .by_name = {{"fc1.input*", FixedScale{.scale = 0.5, .zero_point = 7}},
                             {"*.weight.*", MinMax{}}}});
  CHECK(results[0].qparams == std::vector<QParams<double>>{{0.5, 7}});
  CHECK(std::holds_alternative<MinMax>(results[1].method));
  CHECK(std::holds_alternative<Percentile>(results[2].method));
  CHECK(error_text<ArgumentError>([&] {
          (void)calibrate(tape, wave(2), {.by_name = {{"fc9*", MinMax{}}}});
        }) == "pattern 'fc9*' matches no quantizer with states");
  CHECK(error_text<ArgumentError>([&] {
          (void)calibrate(tape, wave(2),
                          {.by_name = {{"fc1*", MinMax{}}, {"fc1.input*", MinMax{}}}});
        }) == "pattern 'fc1.input*' matches only quantizers of preceding patterns");
}

TEST_CASE("calibrate: what cannot be calibrated is refused and changes nothing") {
  const Graph graph = make_graph();
  Parameters parameters(graph, 3);
  Tape tape(graph, parameters, {.threads = 1});
  (void)calibrate(tape, wave(1));
  const std::string before = parameters.sha256();
  CHECK(error_text<ArgumentError>([&] { (void)calibrate(tape, wave(0)); }) ==
        "calibration needs at least one batch, got none");
  const std::string text = error_text<GraphError>([&] { (void)calibrate(tape, wave(2, 48)); });
  CHECK(text.starts_with("FakeQuantize %4 'fc1.input.quantized' "));
  CHECK(text.find("not calibrated") != std::string::npos);
  CHECK(text.find("96") != std::string::npos);
  CHECK(error_text<ArgumentError>([&] {
          (void)calibrate(tape, wave(2), {.method = FixedScale{.scale = 1, .zero_point = 999}});
        }).find("'fc1.input.quantized'") != std::string::npos);
  CHECK(parameters.sha256() == before);
  const auto some = calibrate(tape, wave(2, 4));
  CHECK(some[0].non_finite == 8);
  const Graph plain = test::make_classifier().graph;
  Graph none;
  none.set_outputs({none.add(Input{.shape = {1, 2}}, {}, "x")});
  Parameters nothing(none, 1);
  Tape bare(none, nothing, {.threads = 1});
  CHECK(error_text<GraphError>([&] { (void)calibrate(bare, wave(1)); }) ==
        "the graph has no quantizers with states to calibrate");
}

TEST_CASE("calibrate: the search is never worse at the outputs than any one method") {
  const Graph graph = make_graph();
  Parameters parameters(graph, 3);
  Tape tape(graph, parameters, {.threads = 1});
  // With outliers, so that the methods differ.
  const BatchSource data = [](Tape& t, int64_t index) {
    const auto x = t.input<float>("x");
    for (size_t i = 0; i < x.size(); ++i)
      x[i] = value_at(index, i) * (i % 17 == 0 ? 8.0f : 1.0f);
    return index < 4;
  };
  const auto error = [&] {
    double sum = 0;
    for (int64_t b = 0; data(tape, b); ++b) {
      tape.forward(mode::float_eval);
      const auto y = tape.value<float>(graph.outputs()[0]);
      const std::vector<float> plain(y.begin(), y.end());
      tape.forward(mode::eval);
      for (size_t i = 0; i < plain.size(); ++i)
        sum += std::pow(double{y[i]} - double{plain[i]}, 2);
    }
    return sum;
  };
  const std::vector<ObserverMethod> candidates = {MinMax{}, Mse{}, Percentile{.percent = 90},
                                                  ClipStd{}};
  (void)calibrate(tape, data, {.method = candidates[0]});
  const double first = error();
  int64_t stages = 0;
  const auto chosen = search_calibration(
      tape, data, candidates, [&](const CalibrationProgress& p) { stages = p.stages; });
  CHECK(stages == 5);
  CHECK(chosen.size() == 4);
  CHECK(error() < first);
  CHECK(error_text<ArgumentError>([&] { (void)search_calibration(tape, data, {}); }) ==
        "the search needs candidates, got none");
}

TEST_CASE("calibrate: a tape with constant parameters uses the new states") {
  const Graph graph = make_graph();
  Parameters parameters(graph, 3);
  Tape tape(graph, parameters, {.threads = 1, .constant_parameters = true});
  const BatchSource data = wave(3);
  const auto answers = [&] {
    tape.forward(mode::eval);
    return test::copied(tape.value<float>(graph.outputs()[0]));
  };
  (void)calibrate(tape, data, {.method = MinMax{}});
  (void)answers();
  (void)calibrate(tape, data, {.method = ClipStd{}});
  const auto found = answers();
  tape.parameters_changed();
  CHECK(found == answers());
}

TEST_CASE("calibrate: kept quantizers keep their states, and others see what follows them") {
  const Graph graph = make_graph();
  Parameters parameters(graph, 3);
  Tape tape(graph, parameters, {.threads = 1});
  const BatchSource data = wave(3);
  CalibrationOptions options{.method = MinMax{}};
  const auto all = calibrate(tape, data, options);
  (void)calibrate(tape, data, {.method = ClipStd{}});
  const NodeId kept = quantizers(graph)[0];
  const auto before = qparams(graph, parameters, kept);
  options.keep.push_back(graph.name(kept));
  const auto others = calibrate(tape, data, options);
  CHECK(others.size() + 1 == all.size());
  CHECK(qparams(graph, parameters, kept) == before);
  // Weights are the same; the input of fc2 is computed from the kept, clipped input of fc1.
  const auto named = [](const std::vector<NodeCalibration>& found, std::string_view label) {
    return std::ranges::find(found, label, &NodeCalibration::label)->qparams;
  };
  for (const auto* label : {"fc1.weight.quantized", "fc2.weight.quantized"}) {
    CHECK(named(others, label) == named(all, label));
  }
  CHECK(named(others, "fc2.input.quantized")[0].scale == kept_range(graph, parameters, data));
  CHECK(named(others, "fc2.input.quantized") != named(all, "fc2.input.quantized"));
  CHECK(search_calibration(tape, data, {MinMax{}}, {}, options.keep).size() == others.size());
  CHECK(qparams(graph, parameters, kept) == before);
  options.keep.emplace_back("none");
  CHECK(error_text<ArgumentError>([&] { (void)calibrate(tape, data, options); }) ==
        "expected labels of quantizers to keep, got 'none'");
  options.keep.clear();
  for (const NodeId id : quantizers(graph)) options.keep.push_back(graph.name(id));
  CHECK(error_text<GraphError>([&] { (void)calibrate(tape, data, options); }) ==
        "there is nothing to calibrate: all quantizers with states are kept");
}

TEST_CASE("calibrate: a source that ends early in a later pass is refused") {
  const Graph graph = make_graph();
  Parameters parameters(graph, 3);
  Tape tape(graph, parameters, {.threads = 1});
  (void)calibrate(tape, wave(2));
  const std::string before = parameters.sha256();
  int64_t left = 3;
  const BatchSource once = [&](Tape& t, int64_t index) {
    return left-- > 0 && wave(2)(t, index);
  };
  CHECK(error_text<ArgumentError>([&] {
          (void)search_calibration(tape, once, {MinMax{}, Mse{}});
        }) == "every pass needs the same batches: the first had 2, a later one had 0");
  CHECK(error_text<ArgumentError>([&] { (void)calibrate(tape, BatchSource()); }) ==
        "expected batches, got an empty function");
  CHECK(parameters.sha256() == before);
}

TEST_CASE("calibrate: quantizers with constant scales are left out") {
  Graph graph;
  const NodeId x = graph.add(Input{.shape = {8, 6}}, {}, "x");
  const NodeId scale =
      graph.add(Constant{.value = Tensor::of<float>({1}, std::vector<float>{0.5f})}, {});
  const NodeId a = graph.add(FakeQuantize{.scale_mode = Fixed{}}, {x, scale});
  const NodeId b = add_quantizer(graph, a, FakeQuantize{.scale_mode = Fixed{}}, "b");
  graph.set_outputs({b});
  Parameters parameters(graph, 3);
  Tape tape(graph, parameters, {.threads = 1});
  const auto results = calibrate(tape, wave(2));
  REQUIRE(results.size() == 1);
  CHECK(results[0].label == "b.quantized");
}

TEST_CASE("insert: a float graph gets the quantizers that linear would have made") {
  Graph plain;
  NodeId y = plain.add(Input{.shape = {8, 6}}, {}, "x");
  y = linear(plain, y, {.out = 5, .label = "fc1"});
  y = plain.add(Relu{}, {y});
  y = linear(plain, y, {.out = 3, .label = "fc2"});
  plain.set_outputs({y});
  const Graph quantized = insert_quantizers(plain, {.weight = weight, .input = input});
  const Graph expected = make_graph();
  CHECK(quantizers(quantized).size() == 4);
  for (NodeId id : quantizers(expected)) {
    const Node& node = expected[id];
    const Node& made = quantized[quantized.at(node.label)];
    CHECK(made.op == node.op);
    CHECK(quantized[made.operands[0]].label == expected[node.operands[0]].label);
  }
  Parameters parameters(quantized, 3);
  Tape tape(quantized, parameters, {.threads = 1});
  (void)calibrate(tape, wave(1));
  const Graph half = insert_quantizers(plain, {.weight = weight, .pattern = "fc2.*"});
  CHECK(quantizers(half).size() == 1);
  CHECK(error_text<GraphError>([&] {
          (void)insert_quantizers(plain, {.weight = weight, .pattern = "y"});
        }) == "no product has unquantized weights that match 'y'");
  CHECK(error_text<GraphError>([&] { (void)insert_quantizers(plain, {.weight = Relu{}}); }) ==
        "'fc1.weight': expected a quantizer, got Relu");
}

TEST_CASE("insert: shared inputs are quantized once, and channels follow the weight's layout") {
  Graph graph;
  const NodeId x = graph.add(Input{.shape = {4, 6}}, {}, "x");
  const NodeId a = graph.add(Parameter{.shape = {6, 5}}, {}, "a");
  const NodeId b = graph.add(Parameter{.shape = {5, 6}}, {}, "b.weight");
  const NodeId y = graph.add(MatMul{}, {x, a});
  const NodeId z = graph.add(MatMul{.transpose_b = true}, {x, b});
  graph.set_outputs({y, z});
  const Graph quantized = insert_quantizers(graph, {.weight = weight, .input = input});
  CHECK(quantizers(quantized).size() == 3);
  CHECK(quantized[quantized.at("a.scale")].type.shape == Shape{5});
  CHECK(quantized[quantized.at("b.weight.scale")].type.shape == Shape{5});
}

TEST_CASE("insert: axes count from either end, and cannot be others") {
  Graph graph;
  const NodeId x = graph.add(Input{.shape = {4, 6}}, {}, "x");
  const NodeId w = graph.add(Parameter{.shape = {6, 5}}, {}, "w");
  graph.set_outputs({graph.add(MatMul{}, {x, w})});
  const auto scales = [&](int axis) {
    const Graph made =
        insert_quantizers(graph, {.weight = weight.with(&FakeQuantize::axis, axis)});
    return made[made.at("w.scale")].type.shape[0];
  };
  CHECK(scales(0) == 5);
  CHECK(scales(-2) == 5);
  CHECK(scales(1) == 6);
  CHECK(scales(-1) == 6);
  CHECK(error_text<GraphError>([&] { (void)scales(5); }) ==
        "axis 5 is out of range for rank 2");
}

TEST_CASE("insert: one weight with two inputs is quantized once, the inputs each") {
  Graph graph;
  const NodeId x = graph.add(Input{.shape = {4, 6}}, {}, "x");
  const NodeId y = graph.add(Input{.shape = {4, 6}}, {}, "y");
  const NodeId w = graph.add(Parameter{.shape = {6, 6}}, {}, "fc.weight");
  const NodeId a = graph.add(MatMul{}, {x, w});
  const NodeId b = graph.add(MatMul{}, {y, w});
  const NodeId c = graph.add(MatMul{.transpose_b = true}, {x, w});
  graph.set_outputs({a, b, c});
  const Graph made = insert_quantizers(graph, {.weight = weight, .input = input});
  CHECK(quantizers(made).size() == 4);
  CHECK(made.find("fc.input2.quantized"));
  CHECK(made.find("fc.weight2.quantized"));
}

TEST_CASE("quantizers: a failing add leaves the graph as it was") {
  Graph graph;
  const NodeId x = graph.add(Input{.shape = {4, 6}}, {}, "x");
  const Graph before = graph;
  CHECK(error_text<GraphError>([&] {
          (void)add_quantizer(graph, x, FakeQuantize{.bits = 1, .scale_mode = Fixed{}}, "q");
        }) == "bits must be in 2..16 for range Narrow, got 1");
  CHECK(graph == before);
  (void)add_quantizer(graph, x, FakeQuantize{.scale_mode = Fixed{}}, "q");
  CHECK(error_text<GraphError>([&] { (void)add_quantizer(graph, x, FakeQuantize{}, "q"); }) ==
        "label 'q.quantized' is already used");
}
