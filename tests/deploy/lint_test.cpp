// Exact findings of lint, each provoked by a small graph.
#include "qtape/deploy/lint.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <limits>

#include "qtape/kernels/quantize/requantize.h"
#include "qtape/tests/support/conformance.h"
#include "qtape/tests/support/errors.h"
#include "qtape/tests/support/integer_programs.h"
#include "qtape/tests/support/small_nets.h"

using namespace qtape;
using namespace qtape::kernels;
using test::error_text;

namespace {

const FakeQuantize fixed{.scale_mode = Fixed{}};
constexpr float nan_value = std::numeric_limits<float>::quiet_NaN();

std::string text_of(const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& finding : findings) text += to_string(finding) + "\n";
  return text;
}

std::string lint_text(const Graph& graph, Parameters& parameters) {
  return text_of(lint(graph, parameters));
}

/// x [1, inputs] -> fc [1, 3] -> y.quantized with explicit scales. The defaults have no
/// findings.
struct OneLayer {
  double x_scale = 0.013;  // 0: not set
  double w_scale = 0.01;
  double y_scale = 0.0371;
  float x_state = 0;  // used if the scale is not set
  float w_state = 0;  // used if the scale is not set, for channel 1
  int64_t inputs = 2;
  std::vector<float> weights = {1.27f, 0.6f, -0.5f, 1.27f, 0.8f, -1.27f};
  std::vector<float> biases = {0.1f, -0.2f, 0.3f};
  bool bias_on_grid = true;
  FakeQuantize input = {.scale_mode = Fixed{}};
  FakeQuantize weight = {.axis = 0, .scale_mode = Fixed{}};
  /// A batch norm whose only effect is the biases.
  bool folded = false;
};

void set_scale(const Graph& graph, Parameters& parameters, NodeId id, double scale) {
  const size_t channels = qparams(graph, parameters, id).size();
  if (channels == 0 || scale == 0) return;
  const std::vector<QParams<double>> all(channels, {scale, 0});
  set_qparams(graph, parameters, id, all);
}

std::string lint_text(const OneLayer& layer) {
  test::Net net({1, layer.inputs});
  const NodeId fc = linear(
      net.graph, net.x,
      {.out = 3,
       .weight_quantizer = layer.weight,
       .input_quantizer = layer.input,
       .bias_on_grid = layer.bias_on_grid,
       .label = "fc",
       .folded_norm = layer.folded ? std::optional(BatchNorm{.eps = 1e-30}) : std::nullopt});
  const NodeId y = net.quantized(fc, fixed, "y");
  net.graph.set_outputs({y});
  Parameters parameters(net.graph, 1);
  parameters.set("fc.weight", Tensor::of<float>({3, layer.inputs}, layer.weights));
  parameters.set(layer.folded ? "fc.beta" : "fc.bias", Tensor::of<float>({3}, layer.biases));
  set_scale(net.graph, parameters, net.graph.at("fc.input.quantized"), layer.x_scale);
  set_scale(net.graph, parameters, net.graph.at("fc.weight.quantized"), layer.w_scale);
  set_scale(net.graph, parameters, y, layer.y_scale);
  if (layer.x_state != 0) parameters.at("fc.input.scale").values<float>()[0] = layer.x_state;
  if (layer.w_state != 0) parameters.at("fc.weight.scale").values<float>()[1] = layer.w_state;
  return lint_text(net.graph, parameters);
}

/// Checks the findings of layers.
void expect(const std::vector<std::pair<OneLayer, std::string>>& rows) {
  for (const auto& [layer, text] : rows) CHECK(lint_text(layer) == text + "\n");
}

/// a + b [1, 4] -> y.quantized.
std::string lint_sum(double a_scale, double b_scale, double y_scale, bool quantized = true) {
  test::Net net({1, 4});
  const NodeId a = net.quantized(net.x, fixed, "a");
  const NodeId b = net.quantized(net.x, fixed, "b");
  NodeId y = net.add(Add{}, {a, b}, "sum");
  if (quantized) y = net.quantized(y, fixed, "y");
  net.graph.set_outputs({y});
  Parameters parameters = net.with_scales({{a, a_scale}, {b, b_scale}});
  if (quantized) set_qparams(net.graph, parameters, y, y_scale);
  return lint_text(net.graph, parameters);
}

/// x [1, 2] -> y.quantized.
struct Activation : test::Net {
  NodeId y;
  Parameters parameters;

  explicit Activation(const Op& op)
      : Net({1, 2}), y(quantized(x, op, "y")), parameters(graph, 1) {
    graph.set_outputs({y});
  }
  std::string lint() { return lint_text(graph, parameters); }
};

}  // namespace

TEST_CASE("lint: a healthy layer and a healthy sum are quiet") {
  CHECK(lint_text(OneLayer{}) == "");
  CHECK(lint_sum(0.0113, 0.0131, 0.0243) == "");
}

TEST_CASE("lint: what has no integers") {
  test::Net net({1, 2});
  const auto lint_of = [&](NodeId output) {
    net.graph.set_outputs({output});
    Parameters parameters(net.graph, 1);
    return lint_text(net.graph, parameters);
  };
  CHECK(lint_of(linear(net.graph, net.x, {.out = 3, .bias = false, .label = "fc"})) ==
        "error: model: has no quantizers; train it with them, or insert and calibrate them\n");
  const NodeId weight = net.quantized(net.graph.at("fc.weight"), FakeQuantize{.axis = 0}, "w");
  CHECK(lint_of(net.add(MatMul{.transpose_b = true}, {net.x, weight}, "product")) ==
        "error: product: Input %0 'x' is not quantized; quantize its output\n");
  const NodeId codes = net.quantized(net.x, fixed, "codes");
  CHECK(
      lint_of(net.add(Softmax{.axis = 1}, {codes}, "softmax")) ==
      "error: codes.quantized: has never observed any values; train or calibrate first\nerror: softmax: has no integer form; replace it with an op that has an integer form, or end the model before it\n");
  CHECK(lint_sum(0.0113, 0.0131, 0, false) ==
        "error: sum: is an output but has no integers of its own; quantize its output\n");
}

TEST_CASE("lint: remedies fit what is wrong with a product") {
  test::Net net({2, 3}, "x\n");
  const NodeId a = net.quantized(net.x, fixed, "a");
  net.graph.set_outputs({net.add(MatMul{.transpose_b = true}, {a, net.x}, "y\t")});
  Parameters parameters = net.with_scales({{a, 0.5}});
  CHECK(lint_text(net.graph, parameters) ==
        "error: y\\t: Input %0 'x\\n' is not quantized; quantize its output\n");
}

TEST_CASE("lint: a graph without outputs") {
  const Graph graph = test::Net({1, 2}).graph;
  Parameters parameters(graph, 1);
  CHECK(error_text<GraphError>([&] { lint(graph, parameters); }) ==
        "the graph names no outputs");
  CHECK(error_text<GraphError>([&] { lint(graph, parameters, {.outputs = {NodeId{7}}}); }) ==
        error_text<GraphError>([&] { (void)graph[NodeId{7}]; }));
}

TEST_CASE("lint: scales") {
  expect(
      {{{.x_scale = 0},
        "error: fc.input.quantized: has never observed any values; train or calibrate first"},
       {{.x_scale = 0, .x_state = -0.05f},
        "error: fc.input.quantized: no scale can be computed from its scale -0.05; train or calibrate first"},
       {{.w_scale = 0, .w_state = nan_value},
        "error: fc.weight.quantized: 3 of 3 channels have no scale; in channel 1, no scale can be computed from its scale nan; train or calibrate first"},
       {{.input = {}},
        "error: fc.input.quantized: takes its scale from each batch; use EMA or Fixed, and calibrate"},
       {{.w_scale = 0},
        "error: fc.weight.quantized: 3 of 3 scales were never set; train or calibrate first"},
       {{.input = {.floor = 0.02, .scale_mode = Fixed{}}},
        "warning: fc.input.quantized: scale 0.02 is not above its floor 0.02: it observed almost only 0; find the cause, then calibrate it again"},
       {{.weight = {.axis = 0, .floor = 0.1}},
        "warning: fc.weight.quantized: all 3 channels have a scale at its floor of 0.1; lower the floor, or remove them"}});
}

TEST_CASE("lint: a quantizer that saw nothing but zeros is a note") {
  const FakeQuantize ranges{.scale_mode = EMA{.track = Track::Range}};
  for (const Op& quantizer : {Op(ranges), Op(FakeQuantize{.scale_mode = EMA{}}),
                              Op(FakeQuantizeLSQ{}), Op(FakeQuantizePACT{})}) {
    Activation net(quantizer);
    CHECK(net.lint() ==
          "error: y.quantized: has never observed any values; train or calibrate first\n");
    set_ranges(net.graph, net.parameters, net.y, std::vector<ValueRange<double>>{{0, 0}});
    CHECK(
        net.lint() ==
        "note: y.quantized: observed only 0, so its largest value is 1; calibrate it with data that reach it, unless it is always 0\n");
    CHECK(convert(net.graph, net.parameters, {}).size() >= 2);
  }
}

TEST_CASE("lint: zero points that are no codes") {
  const FakeQuantize affine{
      .range = CodeRange::Unsigned, .scheme = Scheme::Affine, .scale_mode = Fixed{}};
  for (float zero_point : {3.5f, 256.0f, -1.0f, nan_value}) {
    Activation net(affine);
    set_qparams(net.graph, net.parameters, net.y, 0.1, 3);
    CHECK(net.lint() == "");
    net.parameters.at("y.zero_point").values<float>()[0] = zero_point;
    CHECK(
        net.lint() ==
        fmt::format(
            "error: y.quantized: zero point of channel 0 is {}; it must be one of the codes; set it with set_qparams or calibrate\n",
            zero_point));
  }
}

TEST_CASE("lint: scales below the floor are judged as the floor that is used") {
  CHECK(lint_text(OneLayer{.x_scale = 1e-15, .w_scale = 1e-15, .y_scale = 1e-15}) ==
        lint_text(OneLayer{.x_scale = 1e-12, .w_scale = 1e-12, .y_scale = 1e-12}));
}

TEST_CASE("lint: weights") {
  expect(
      {{{.weights = {1.27f, 0.6f, 0, 0, 0.8f, -1.27f}},
        "note: fc.weight.quantized: channel 1 of 3 has no weight other than 0; remove them, "
        "unless the rewriting of a layer made them"},
       {{.weights = {1.27f, 0.6f, 0.001f, 0, 0.8f, -1.27f}},
        "warning: fc.weight.quantized: channel 1 of 3 has only the code 0; remove them, or give each channel its own scale"},
       {{.weights = {1.275f, 0.6f, 1.2f, 12.7f, -1.3f, -2}},
        "warning: fc.weight.quantized: 2 of 3 channels (1, 2) have up to 100 % of the weights outside the codes -127..127; calibrate the scale again, or train it longer"},
       {{.weights = {1.27f, nan_value, 1, 1, nan_value, 1}},
        "error: fc.weight.quantized: 2 of 3 channels (0, 2) have weights that are NaN or infinite; retrain from a checkpoint in which all weights are finite"}});
}

TEST_CASE("lint: a border whose value has no code") {
  const auto padded = [](double value) {
    test::Net net({1, 4});
    const NodeId x = net.quantized(net.x, fixed, "x");
    net.graph.set_outputs(
        {net.add(Pad{.begin = {0, 1}, .end = {0, 0}, .value = value}, {x}, "y")});
    Parameters parameters = net.with_scales({{x, 0.0113}});
    return lint_text(net.graph, parameters);
  };
  CHECK(padded(0) == "");
  CHECK(padded(-1.44) == "");
  CHECK(padded(-5).starts_with("warning: y: its border of -5 becomes -1.4"));
}

TEST_CASE("lint: options out of range") {
  test::Net net({1, 2});
  net.graph.set_outputs({net.quantized(net.x, fixed, "x")});
  const Parameters parameters(net.graph, 1);
  for (const double each : {-1.0, std::numeric_limits<double>::quiet_NaN()}) {
    CHECK_THROWS_AS((void)lint(net.graph, parameters, {.clamped_share = each}), ArgumentError);
    CHECK_THROWS_AS((void)lint(net.graph, parameters, {.bias_change = each}), ArgumentError);
  }
}

TEST_CASE("lint: biases") {
  expect({{{.biases = {0, nan_value, 1}},
           "error: fc.bias: bias 1 is NaN; retrain from a state before it became NaN"},
          {{.biases = {0, nan_value, 1}, .folded = true},
           "error: fc.bias: bias 1 is NaN; retrain from a state before it became NaN"}});
  CHECK(lint_text(OneLayer{.folded = true}) == "");
  expect(
      {{{.biases = {0, 1, 1000}},
        "note: fc: bias of channel 2 of 3 is larger than any sum of the products; no input changes the sign of this sum: retrain it if a ReLU reads it"},
       {{.biases = {0, 1e9f, 1}},
        "warning: fc: bias of channel 1 of 3 is clamped to the range of s32; give the input or the weights a larger scale: their product is the step of the bias\nwarning: fc: accumulators can reach 2147506126, beyond s32, and are computed in s64; targets that sum in 32 bits overflow: use fewer bits or a shorter sum"},
       {{.biases = {0.01f, 0.0001f, 0}, .bias_on_grid = false},
        "note: fc.bias: 2 of 3 biases change when they are rounded to the grid of the accumulators, by up to 0.3 % of the largest one; apply FakeQuantizeBias to it in training, or train in exact arithmetic"}});
  CHECK(lint_text(
            OneLayer{.biases = {0.01f, 0.0001f, 0}, .bias_on_grid = false, .folded = true}) ==
        lint_text(OneLayer{.biases = {0.01f, 0.0001f, 0}, .bias_on_grid = false}));
  expect(
      {{{.biases = {0.001f, 0.0001f, 0}, .bias_on_grid = false},
        "warning: fc.bias: 2 of 3 biases change when they are rounded to the grid of the accumulators, by up to 4 % of the largest one; apply FakeQuantizeBias to it in training, or train in exact arithmetic"}});
}

TEST_CASE("lint: accumulators and storage") {
  OneLayer wide{.x_scale = 0.0001, .inputs = 600, .input = {.bits = 16, .scale_mode = Fixed{}}};
  wide.weights.assign(1800, 1.27f);
  expect(
      {{wide,
        "warning: fc: accumulators can reach 2497145400, beyond s32, and are computed in s64; targets that sum in 32 bits overflow: use fewer bits or a shorter sum\nnote: fc: accumulators of products can reach 19431000, beyond f32's 2^24, and pairs 64770, beyond 2^15: int8 where it is added in 32 bits (VNNI), plain loops on all other processors; use weights of fewer bits, which are fast everywhere\nnote: fc: input has more than 8 bits: every product is computed twice; quantize it to 8 bits where accuracy allows"}});
  OneLayer long_sums{.x_scale = 0.0142, .inputs = 2200};
  long_sums.weights.assign(6600, 0.63f);
  expect(
      {{long_sums,
        "note: fc: accumulators of products can reach 17602200, beyond f32's 2^24: int8 with VNNI, AVX-512 or oneDNN 2, plain loops on all other processors; use weights of fewer bits, which are fast everywhere"},
       {{.y_scale = 0.0037,
         .weights = {0.07f, 0.03f, -0.05f, 0.06f, 0.01f, -0.08f},
         .biases = {0, 0, 0}},
        "note: fc: weights have the codes -8..7, which fit 4 bits, and are stored in 8; give their quantizer that many bits, with the same scale"}});
}

TEST_CASE("lint: ratios between grids") {
  expect(
      {{{.y_scale = 1e6},
        "warning: y.quantized: in all 3 channels, accumulators up to 28597, times 1.3e-10, round to 0: every code is the zero point; calibrate it again: its scale is too large"},
       {{.y_scale = 0.0000521},
        "note: y.quantized: in all 3 channels, accumulators are up to 2.5 steps apart: not every code can occur; give it fewer bits or a larger scale"},
       {{.y_scale = 0.0000001},
        "warning: y.quantized: in all 3 channels, accumulators are up to 1.3e+03 steps apart: not every code can occur; give it fewer bits or a larger scale"}});
  CHECK(
      lint_sum(0.00001, 0.0131, 0.0243) ==
      "warning: y.quantized: summand a.quantized is at most 0.052 of a step of the sum; it hardly changes the sum: give the sum more bits, or calibrate all three together\n");
}

TEST_CASE("lint: codes of which few remain on another grid") {
  const auto findings_for = [](double scale) {
    test::ProgramBuilder b;
    const ProgramNodeId x = b.codes({2, 3}, {DType::U8, 1.0f / 255, 0, 0, 255});
    b.program.set_outputs(
        {b.add(integer::Requantize{{DType::U8, scale, 0, 0, 255}}, {x}, "y")});
    std::string text;
    for (const Finding& each : lint(b.program)) {
      if (each.what.find("remain") != std::string::npos) text += to_string(each);
    }
    return text;
  };
  CHECK(
      findings_for(1.5) ==
      "warning: y: about 2 of 256 codes remain; calibrate it again; if its values are small "
      "compared with others on the same grid, such as that of a Concat, give it more bits or make "
      "both separate answers");
  CHECK(findings_for(0.125) == "");
}

TEST_CASE("lint: ties between codes") {
  const auto check_tie = [](const std::string& text, const std::string& finding) {
    CAPTURE(text);
    CHECK(text.starts_with(
        "warning: " + finding +
        " halfway between two codes, where FloatMultiply and OnnxQdq round to even but SingleRounding"));
    CHECK(text.ends_with(
        " do not; train in exact arithmetic with the target's requantization, or change a scale slightly\n"));
  };
  const std::vector<float> weights = {31.75f, 15, -12.5f, 31.75f, 20, -31.75f};
  check_tie(
      lint_text(OneLayer{.x_scale = 0.5, .w_scale = 0.25, .y_scale = 8, .weights = weights}),
      "y.quantized: in all 3 channels, 1 of 64 accumulators lies");
  CHECK(lint_sum(0.01, 0.01, 0.03) == "");
  check_tie(lint_sum(0.01, 0.01, 0.06), "y.quantized: 1 of 6 accumulators lies");
  test::ProgramBuilder b;
  const ProgramNodeId codes = b.codes({1, 2}, {.scale = 0.5});
  const ProgramNodeId y = b.add(integer::Requantize{{.scale = 1}}, {codes}, "y");
  check_tie(text_of(lint(b.of({y}))), "y: 1 of 2 codes lies");
}

TEST_CASE("lint: what is always 0, constants and products have no findings of sums") {
  test::ProgramBuilder b;
  const ProgramNodeId x = b.codes({1, 2}, {.scale = 0.0113f});
  const ProgramNodeId zero =
      b.add(integer::Quantize{{.scale = 7, .low = 0, .high = 0}}, {b.program.at("x")}, "zero");
  const ProgramNodeId grid = b.add(integer::Requantize{{.scale = 0.0131f}}, {zero}, "grid");
  const ProgramNodeId sum = b.add(integer::Add{{.scale = 0.0113f}}, {x, grid}, "sum");
  const ProgramNodeId product = b.add(integer::Mul{{.scale = 0.25}}, {sum, sum}, "product");
  CHECK(text_of(lint(b.of({product}))) == "");
}

TEST_CASE("lint: programs of every op") {
  for (const test::ConformanceCase& each : test::conformance_cases()) {
    CAPTURE(each.name);
    CHECK_NOTHROW((void)lint(each.program));
  }
}

TEST_CASE("lint: requantizations of one rounding differ at ties, and nowhere else") {
  const Multiplier m = multiplier_of(0.125, 8);
  int64_t different = 0;
  for (int64_t sum = -6400; sum < 6400; ++sum) {
    const int32_t even = requantize(sum, m, Requantization::FloatMultiply);
    CHECK(even == requantize(sum, m, Requantization::OnnxQdq));
    const bool same = even == requantize(sum, m, Requantization::SingleRounding);
    CHECK((same || (sum & 63) == 32));
    different += same ? 0 : 1;
  }
  CHECK(different == 100);
}
