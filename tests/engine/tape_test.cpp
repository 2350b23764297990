#include "qtape/engine/tape.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "qtape/optim/optimizer.h"
#include "qtape/tests/support/errors.h"
#include "qtape/tests/support/isa_limit.h"
#include "qtape/tests/support/models.h"
#include "qtape/tests/support/small_nets.h"

using namespace qtape;
using test::error_text;

namespace {

/// Returns the SHA-256 of all parameters and states after some training steps.
std::string train(const test::Classifier& c, int threads, int steps) {
  Parameters parameters(c.graph, 7);
  Tape tape(c.graph, parameters, {.roots = {c.loss}, .threads = threads, .seed = 3});
  Optimizer optimizer(parameters, Adam{}, {}, threads);
  for (int step = 0; step < steps; ++step) {
    test::feed(tape, c, step);
    tape.forward(mode::qat);
    tape.backward();
    optimizer.step(1e-3);
  }
  return parameters.sha256();
}

}  // namespace

TEST_CASE("tape: the same seed gives the same bits with 1, 2 and 4 threads") {
  for (const test::ClassifierOptions& options :
       {test::ClassifierOptions{.dropout = 0.3},
        test::ClassifierOptions{.batch = 64, .inputs = 784, .hidden = 256},
        test::ClassifierOptions{.batch = 3000, .inputs = 1500, .hidden = 33, .dropout = 0.1}}) {
    const test::Classifier c = test::make_classifier(options);
    const std::string one = train(c, 1, 4);
    CHECK(train(c, 2, 4) == one);
    CHECK(train(c, 4, 4) == one);
  }
}

TEST_CASE("tape: constant parameters are read, and not trained or observed") {
  const test::Classifier c = test::make_classifier({.dropout = 0.3});
  const Parameters parameters(c.graph, 7);
  const std::string before = parameters.sha256();
  Tape tape(c.graph, parameters, {});
  test::feed(tape, c, 0);
  const std::string text =
      "this tape only reads its parameters: expected a mode without observers and batch "
      "statistics";
  CHECK(error_text<ArgumentError>([&] { tape.forward(mode::qat); }) == text);
  CHECK(error_text<ArgumentError>([&] { tape.forward(mode::observe); }) == text);
  tape.forward(mode::float_eval);
  CHECK(parameters.sha256() == before);
  CHECK(error_text<ArgumentError>([&] { Tape(c.graph, parameters, {.roots = {c.loss}}); }) ==
        "a tape that only reads its parameters computes no gradients, got 1 roots");
}

TEST_CASE("tape: the same bits with kernels of every instruction set") {
  const test::Classifier c = test::make_classifier({.dropout = 0.3});
  const std::string best = train(c, 2, 5);
  for (const std::string_view name : enum_names<Isa>) {
    const test::IsaLimit limit(name);
    CHECK(train(c, 2, 5) == best);
  }
  const test::IsaLimit limit("sse9");
  CHECK(error_text<ArgumentError>([&] { train(c, 2, 1); }) ==
        "QTAPE_ISA: unknown value \"sse9\"; expected one of " + spellings<Isa>());
}

TEST_CASE("tape: modes switch dropout, observers and quantizers on their own") {
  const test::Classifier c = test::make_classifier({.dropout = 0.5});
  Parameters parameters(c.graph, 1);
  Tape tape(c.graph, parameters, {});
  test::feed(tape, c, 0);
  const auto logits = [&](Mode mode) {
    tape.forward(mode);
    return test::copied(tape.value<float>(c.logits));
  };
  const NodeId input = c.graph.at("fc1.input.quantized");
  const auto scale = [&] { return qparams(c.graph, parameters, input)[0].scale; };
  const auto plain = logits(mode::float_eval);
  CHECK(scale() == 0);
  CHECK(logits(mode::float_train) != plain);
  CHECK(scale() == 0);
  CHECK(logits(mode::observe) == plain);
  CHECK(scale() > 0);
  const double seen = scale();
  CHECK(logits(mode::eval) != plain);
  CHECK(logits(mode::eval) == logits(mode::eval));
  CHECK(scale() == seen);
  CHECK(tape.step() == 1);
}

TEST_CASE("tape: a schedule delays quantizers and freezes observers, in training alone") {
  const test::Classifier c = test::make_classifier();
  Parameters parameters(c.graph, 1);
  Tape tape(c.graph, parameters, {.schedule = {.delay = 2, .freeze = 3, .warm_up = 1}});
  const NodeId input = c.graph.at("fc1.input.quantized");
  std::vector<double> scales;
  std::vector<bool> applied;
  for (int step = 0; step < 5; ++step) {
    test::feed(tape, c, step);
    tape.forward(mode::qat);
    applied.push_back(tape.status(input).applied);
    scales.push_back(qparams(c.graph, parameters, input)[0].scale);
    tape.forward(mode::eval);
    CHECK(tape.status(input).applied);
  }
  CHECK(applied == std::vector<bool>{false, false, true, true, true});
  CHECK(scales[0] != scales[1]);
  CHECK(scales[1] != scales[2]);
  CHECK(scales[2] == scales[3]);
  CHECK(scales[3] == scales[4]);
  CHECK(error_text<ArgumentError>([&] {
          Tape(c.graph, parameters, {.schedule = {.freeze = -1}});
        }) == "QuantizationSchedule: freeze must be >= 0, got -1");
  CHECK(error_text<ArgumentError>([&] {
          Tape(c.graph, parameters, {.schedule = {.freeze_norms = -2}});
        }) == "QuantizationSchedule: freeze_norms must be >= 0, got -2");
}

TEST_CASE("tape: learned scales start when quantizers begin to apply, whatever they were") {
  for (const int64_t delay : {0, 2}) {
    CAPTURE(delay);
    test::Net net({2});
    const NodeId lsq = net.quantized(net.x, FakeQuantizeLSQ{.bits = 2}, "lsq");
    net.graph.set_outputs({net.quantized(lsq, FakeQuantizePACT{.bits = 2}, "pact")});
    Parameters parameters = net.with_scales({{lsq, 100}});
    Tape tape(net.graph, parameters, {.schedule = {.delay = delay}});
    std::vector<double> scales;
    for (int step = 0; step < 4; ++step) {
      tape.input<float>("x")[0] = static_cast<float>(3 * step + 3);
      tape.input<float>("x")[1] = static_cast<float>(-step - 1);
      tape.forward(mode::qat);
      scales.push_back(qparams(net.graph, parameters, lsq)[0].scale);
    }
    CHECK(scales == (delay == 0 ? std::vector<double>{100, 100, 100, 100}
                                : std::vector<double>{100, 100, 12, 12}));
    if (delay > 0) CHECK(parameters.at("pact.alpha").values<float>()[0] == 12);
  }
  // One that must not observe keeps its scale.
  test::Net net({2});
  const NodeId lsq = net.quantized(net.x, FakeQuantizeLSQ{.bits = 2}, "lsq");
  net.graph.set_outputs({lsq});
  Parameters parameters = net.with_scales({{lsq, 100}});
  Tape tape(net.graph, parameters, {.schedule = {.delay = 1}});
  tape.status(lsq).observing = false;
  for (int step = 0; step < 3; ++step) tape.forward(mode::qat);
  CHECK(qparams(net.graph, parameters, lsq)[0].scale == 100);
}

TEST_CASE("tape: each quantizer can be switched off on its own") {
  const test::Classifier c = test::make_classifier();
  Parameters parameters(c.graph, 1);
  Tape tape(c.graph, parameters, {});
  test::feed(tape, c, 0);
  tape.forward(mode::observe);
  const auto plain = tape.scalar(c.loss);
  for (NodeId id : quantizers(c.graph)) tape.status(id).enabled = false;
  tape.forward(mode::eval);
  CHECK(tape.scalar(c.loss) == plain);
  tape.status(c.graph.at("fc2.weight.quantized")).enabled = true;
  tape.forward(mode::eval);
  CHECK(tape.scalar(c.loss) != plain);
}

TEST_CASE("tape: scales can be read back") {
  const test::Classifier c = test::make_classifier();
  Parameters parameters(c.graph, 1);
  Tape tape(c.graph, parameters, {});
  const NodeId input = c.graph.at("fc1.input.quantized");
  const NodeId weight = c.graph.at("fc1.weight.quantized");
  test::feed(tape, c, 0);
  tape.forward(mode::qat);
  CHECK(tape.qparams(input) == qparams(c.graph, parameters, input));
  CHECK(tape.qparams(weight).size() == 70);
  CHECK(qparams(c.graph, parameters, weight).empty());
  CHECK(error_text<GraphError>([&] {
          (void)tape.qparams(c.loss);
        }).ends_with(": is not a quantizer of this tape"));
}

TEST_CASE("tape: set_qparams takes a number, a list or a tensor and refuses what cannot be") {
  Graph graph;
  const NodeId x = graph.add(Input{.shape = {1, 3}}, {}, "x");
  const NodeId state = graph.add(State{.shape = {3}}, {}, "s");
  const NodeId y = graph.add(FakeQuantize{.axis = 1, .scale_mode = Fixed{}}, {x, state}, "y");
  graph.set_outputs({y});
  Parameters parameters(graph, 1);
  Tape tape(graph, parameters, {});
  std::ranges::fill(tape.input<float>(x), 0.6f);
  CHECK(
      error_text<GraphError>([&] { tape.forward(mode::eval); }) ==
      "FakeQuantize %2 'y' (%0 'x' f32[1, 3], %1 's' f32[3]): scale of channel 0 is 0; set it with set_qparams or calibrate");
  set_qparams(graph, parameters, y, 0.5);
  tape.forward(mode::eval);
  CHECK(tape.value<float>(y)[2] == 0.5f);
  using List = std::vector<QParams<double>>;
  const auto scales = [&] { return qparams(graph, parameters, y); };
  set_qparams(graph, parameters, y, List{{1, 0}, {0.5, 0}, {0.25, 0}});
  CHECK(scales() == List{{1, 0}, {0.5, 0}, {0.25, 0}});
  set_qparams(graph, parameters, y, Tensor::of<float>({3}, std::vector<float>{2, 2, 2}));
  const auto refused = [&](const List& list) {
    const std::string text =
        error_text<GraphError>([&] { set_qparams(graph, parameters, y, list); });
    return text.substr(text.find("): ") + 3);
  };
  CHECK(refused({{1, 0}, {2, 0}}) == "has 3 channels, got 2");
  CHECK(refused({{0, 0}, {1, 0}, {1, 0}}) ==
        "scale 0 must be positive and a normal f32, got 0");
  CHECK(refused({{1, 0}, {-1, 0}, {1, 0}}) ==
        "scale 1 must be positive and a normal f32, got -1");
  CHECK(refused({{1, 0}, {1, 0}, {std::numeric_limits<double>::infinity(), 0}}) ==
        "scale 2 must be positive and a normal f32, got inf");
  CHECK(refused({{1, 0}, {1, 0}, {1, 5}}) == "zero point 2 must be an integer in 0..0, got 5");
  CHECK(scales() == List(3, {2, 0}));
  CHECK(error_text<GraphError>([&] { set_qparams(graph, parameters, x, 1.0); }) ==
        "Input %0 'x': is not a quantizer");
  Graph other;
  other.add(State{.shape = {2}}, {}, "s");
  Parameters others(other, 1);
  CHECK(error_text<GraphError>([&] {
          set_qparams(graph, others, y, 0.5);
        }).ends_with(": 's' is f32[2], the graph needs f32[3]"));
}

TEST_CASE("tape: affine states hold scale and zero point, or the range that gives them") {
  for (const ScaleMode& mode : {ScaleMode{Fixed{}}, ScaleMode{EMA{.track = Track::Range}}}) {
    using Ranges = std::vector<ValueRange<double>>;
    Graph graph;
    const NodeId x = graph.add(Input{.shape = {2, 2}}, {}, "x");
    const FakeQuantize affine{
        .axis = 1, .range = CodeRange::Unsigned, .scheme = Scheme::Affine, .scale_mode = mode};
    const NodeId y = add_quantizer(graph, x, affine, "x");
    Parameters parameters(graph, 1);
    CHECK(qparams(graph, parameters, y)[0].scale == 0);
    const std::vector<QParams<double>> given = {{0.5, 3}, {0.25, 255}};
    set_qparams(graph, parameters, y, given);
    CHECK(qparams(graph, parameters, y) == given);
    set_ranges(graph, parameters, y, Ranges{{-1, 254}, {0.5, 51}});
    CHECK(qparams(graph, parameters, y) ==
          std::vector<QParams<double>>{{1, 1}, {double{51.0f / 255}, 0}});
    const auto refused = [](const std::string& reason, const std::function<void()>& body) {
      const std::string text = error_text<GraphError>(body);
      CAPTURE(text);
      CHECK(text.ends_with(reason));
    };
    refused("zero point 0 must be an integer in 0..255, got 256",
            [&] { set_qparams(graph, parameters, y, 0.5, 256); });
    refused("range 0 must be finite in f32 and not empty, got inf to -inf",
            [&] { set_ranges(graph, parameters, y, Ranges(2)); });
    refused("range 0 must be finite in f32 and not empty, got 0 to 1e+300", [&] {
      set_ranges(graph, parameters, y, Ranges(2, {0, 1e300}));
    });
    refused("scale 0 is too large: 255 steps of 1e+37 do not fit into f32",
            [&] { set_qparams(graph, parameters, y, 1e37); });
    const auto scales = Tensor::of<float>({2}, std::vector<float>{1, 1});
    refused("is affine, and a tensor of scales has no zero points",
            [&] { set_qparams(graph, parameters, y, scales); });
    refused("scales hold 0 bytes, f32[2] needs 8", [&] {
      set_qparams(graph, parameters, y, Tensor{scales.type, {}});
    });
    CHECK(error_text<GraphError>([&] { (void)qparams(graph, parameters, x); }) ==
          "Input %0 'x': is not a quantizer");
    CHECK(qparams(graph, parameters, y)[0] == QParams<double>{1, 1});
    // A scale below the floor acts as the floor, with the given zero point.
    set_qparams(graph, parameters, y, 1e-15, 100);
    CHECK(qparams(graph, parameters, y)[1] == QParams<double>{double{1e-12f}, 100});
  }
}

TEST_CASE("tape: a zero point outside the codes is a fault") {
  test::Net net({1, 1});
  const NodeId y =
      net.quantized(net.x, FakeQuantize{.scheme = Scheme::Affine, .scale_mode = Fixed{}}, "x");
  net.graph.set_outputs({y});
  Parameters parameters = net.with_scales({{y, 1}});
  parameters.at("x.zero_point").values<float>()[0] = 127.5f;
  Tape tape(net.graph, parameters, {});
  tape.input<float>(net.x)[0] = 0;
  CHECK(error_text<GraphError>([&] {
          tape.forward(mode::eval);
        }).ends_with("zero point of channel 0 is 127.5; it must be one of the codes"));
}

TEST_CASE("tape: a label out of range is an error that names it, and training can go on") {
  const test::Classifier c = test::make_classifier();
  Parameters parameters(c.graph, 1);
  Tape tape(c.graph, parameters, {.roots = {c.loss}});
  test::feed(tape, c, 0);
  tape.input<int32_t>(c.labels)[3] = 10;
  CHECK(error_text<GraphError>([&] {
          tape.forward(mode::qat);
        }).ends_with(": label 10 at row 3 is outside the classes"));
  CHECK(error_text<GraphError>([&] { tape.backward(); }) ==
        "backward requires a preceding forward");
  tape.input<int32_t>(c.labels)[3] = -1;
  CHECK(error_text<GraphError>([&] {
          tape.forward(mode::qat);
        }).ends_with(": label -1 at row 3 is outside the classes"));
  test::feed(tape, c, 1);
  tape.forward(mode::qat);
  tape.backward();
  CHECK(std::isfinite(tape.scalar(c.loss)));
}

TEST_CASE("tape: NaN and infinity in a batch leave the states sound and are counted") {
  const test::Classifier c = test::make_classifier();
  Parameters parameters(c.graph, 1);
  Tape tape(c.graph, parameters, {.roots = {c.loss}});
  test::feed(tape, c, 0);
  tape.forward(mode::qat);
  test::feed(tape, c, 1);
  tape.input<float>(c.x)[5] = std::numeric_limits<float>::quiet_NaN();
  tape.input<float>(c.x)[9] = std::numeric_limits<float>::infinity();
  tape.forward(mode::qat);
  CHECK(tape.status(c.graph.at("fc1.input.quantized")).non_finite == 2);
  CHECK(tape.non_finite() >= 2);
  for (const ParameterEntry& entry : parameters.entries()) {
    for (float value : entry.values<float>()) CHECK(std::isfinite(value));
  }
  test::feed(tape, c, 2);
  tape.forward(mode::qat);
  CHECK(std::isfinite(tape.scalar(c.loss)));
}

TEST_CASE("tape: gradients reach an f32 weight through f16 and bf16 quantizers") {
  for (DType dtype : {DType::F16, DType::BF16}) {
    Graph graph;
    const NodeId w = graph.add(Parameter{.shape = {4}}, {}, "w");
    const NodeId half = graph.add(Cast{.dtype = dtype}, {w});
    const NodeId state = graph.add(State{.shape = {1}, .value = 0.25}, {}, "s");
    const FakeQuantize quantizer{.bits = 3, .ste = Ste::ClippedIdentity, .scale_mode = Fixed{}};
    const NodeId q = graph.add(quantizer, {half, state});
    const NodeId y = graph.add(Sum{}, {graph.add(Cast{.dtype = DType::F32}, {q})}, "y");
    graph.set_outputs({y});
    Parameters parameters(graph, 1);
    parameters.set("w", Tensor::of<float>({4}, std::vector<float>{0.3f, -0.6f, 2, -0.1f}));
    Tape tape(graph, parameters, {.roots = {y}});
    tape.forward(mode::qat);
    tape.backward();
    CHECK(tape.scalar(y) == 0.25 - 0.5 + 0.75);
    CHECK(test::copied(parameters.at("w").gradients<float>()) ==
          std::vector<float>{1, 1, 0, 1});
  }
}

TEST_CASE("tape: backward from one of two roots is that root's gradient alone") {
  Graph graph;
  const NodeId w =
      graph.add(Parameter{.shape = {3}, .initializer = init::Fill{.value = 2}}, {}, "w");
  const NodeId a = graph.add(Exp{}, {w}, "a");
  const NodeId b = graph.add(Mul{}, {w, w}, "b");
  graph.set_outputs({a, b});
  Parameters parameters(graph, 1);
  Tape tape(graph, parameters, {.roots = {a, b}});
  const std::vector<float> dy = {1, 10, 100};
  for (int repeat = 0; repeat < 2; ++repeat) {
    tape.forward(mode::eval);
    tape.backward(b, std::span<const float>(dy));
    CHECK(test::copied(parameters.at("w").gradients<float>()) ==
          std::vector<float>{4, 40, 400});
    tape.forward(mode::eval);
    tape.backward(a, std::span<const float>(dy));
  }
}

TEST_CASE("tape: gradients of several steps add up on request") {
  const test::Classifier c = test::make_classifier();
  Parameters parameters(c.graph, 1);
  Tape once(c.graph, parameters, {.roots = {c.loss}});
  Tape summing(c.graph, parameters, {.roots = {c.loss}, .accumulate_gradients = true});
  test::feed(once, c, 0);
  once.forward(mode::eval);
  once.backward();
  const auto entry = parameters.at("fc2.bias");
  const std::vector<float> first = test::copied(entry.gradients<float>());
  parameters.zero_gradients();
  test::feed(summing, c, 0);
  for (int i = 0; i < 2; ++i) {
    summing.forward(mode::eval);
    summing.backward();
  }
  for (size_t i = 0; i < first.size(); ++i) {
    CHECK(entry.gradients<float>()[i] == first[i] + first[i]);
  }
}

TEST_CASE("tape: what it cannot give or bind is an error that says so") {
  const test::Classifier c = test::make_classifier();
  Parameters parameters(c.graph, 1);
  Tape tape(c.graph, parameters, {.outputs = {c.logits}});
  CHECK(error_text<GraphError>([&] { (void)tape.input<float>(c.labels); }) ==
        "Input %1 'labels': no output of this tape needs it");
  CHECK(error_text<GraphError>([&] { (void)tape.input<double>(c.x); }) ==
        "Input %0 'x': is f32[32, 40], accessed as f64");
  CHECK(error_text<GraphError>([&] {
          (void)tape.input<float>(c.logits);
        }).ends_with(": is not an input"));
  CHECK(error_text<GraphError>([&] {
          (void)tape.value<float>(NodeId{4});
        }).ends_with(": is not an output of this tape"));
  CHECK(error_text<GraphError>([&] { tape.backward(); }) ==
        "this tape has no roots to start gradients from");
  CHECK(error_text<ArgumentError>([&] { Tape bad(c.graph, parameters, {.threads = 0}); }) ==
        "threads must be at least 1, got 0");
  Graph other;
  const NodeId w = other.add(Parameter{.shape = {2}}, {}, "fc1.weight");
  other.set_outputs({w});
  CHECK(error_text<GraphError>([&] { Tape bad(other, parameters, {}); }) ==
        "Parameter %0 'fc1.weight': the parameters hold f32[70, 40], the graph needs f32[2]");
}

TEST_CASE("tape: timing adds up what kernels of nodes take, from when it begins") {
  const test::Classifier c = test::make_classifier();
  Parameters parameters(c.graph, 1);
  Tape tape(c.graph, parameters, {.roots = {c.loss}});
  test::feed(tape, c, 0);
  const auto step = [&] {
    tape.forward(mode::qat);
    tape.backward();
  };
  step();
  CHECK(tape.times().empty());
  tape.set_timing(true);
  step();
  const auto sum = [&] {
    int64_t total = 0;
    for (const NodeTimes& each : tape.times()) total += each.forward + each.backward;
    return total;
  };
  REQUIRE(static_cast<int64_t>(tape.times().size()) == c.graph.size());
  const int64_t first = sum();
  CHECK(first > 0);
  CHECK(tape.times()[at(c.x)].forward == 0);
  step();
  const int64_t both = sum();
  CHECK(both > first);
  tape.set_timing(false);
  step();
  CHECK(sum() == both);
  tape.set_timing(true);
  CHECK(sum() == 0);
}

TEST_CASE("tape: backward sets gradients of parameters that its roots do not reach to 0") {
  test::Net net({1, 3});
  const NodeId a = net.add(Mul{}, {net.x, net.parameter({3}, "a")});
  const NodeId b = net.add(Mul{}, {net.x, net.parameter({3}, "b")});
  const NodeId of_a = net.add(Sum{}, {a}), of_b = net.add(Sum{}, {b});
  Parameters parameters(net.graph, 1);
  const auto gradients_after = [&](NodeId root, bool accumulate) {
    Tape tape(net.graph, parameters, {.roots = {root}, .accumulate_gradients = accumulate});
    std::ranges::fill(tape.input<float>(net.x), 2.0f);
    tape.forward(mode::qat);
    tape.backward();
    return std::pair{parameters.at("a").gradients<float>()[0],
                     parameters.at("b").gradients<float>()[0]};
  };
  CHECK(gradients_after(of_a, false) == std::pair{2.0f, 0.0f});
  CHECK(gradients_after(of_b, false) == std::pair{0.0f, 2.0f});
  CHECK(gradients_after(of_a, true) == std::pair{2.0f, 2.0f});
}
