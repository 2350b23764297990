// Products of codes in training, compared with the same steps on values.
#include "qtape/integer/training/codes_forward.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "qtape/engine/plan_hooks.h"
#include "qtape/integer/training/exact.h"
#include "qtape/tests/support/small_nets.h"

using namespace qtape;
using test::copied;

namespace {

const FakeQuantize fixed_weight{.axis = 0, .ste = Ste::ClippedIdentity, .scale_mode = Fixed{}};
const FakeQuantize fixed_input{
    .range = CodeRange::Unsigned, .ste = Ste::ClippedIdentity, .scale_mode = Fixed{}};

/// A network of small integers times powers of two: float sums are exact in any order, so
/// values and codes must agree bit for bit.
struct WholeNet : test::Net {
  using Net::Net;
  NodeId y;

  LayerOptions options(int64_t out, const std::string& label) const {
    return {
        .out = out, .weight_quantizer = fixed_weight, .bias_on_grid = false, .label = label};
  }
  WholeNet& ending_in(NodeId last) {
    y = last;
    graph.set_outputs({y});
    return *this;
  }

  void fill(Parameters& parameters) const {
    for (NodeId id : quantizers(graph)) {
      set_qparams(graph, parameters, id, std::ldexp(1.0, -3));
    }
    const Random random(7, 1);
    uint64_t at = 0;
    for (const ParameterEntry& entry : parameters.entries()) {
      if (!entry.trainable()) continue;
      for (float& v : entry.values<float>()) {
        v = std::ldexp(static_cast<float>(static_cast<int64_t>(random.below(at++, 9)) - 4), -3);
      }
    }
  }
};

WholeNet dense(const Shape& shape, const std::vector<int64_t>& widths) {
  WholeNet net(shape);
  NodeId h = net.x;
  for (size_t i = 0; i < widths.size(); ++i) {
    LayerOptions options = net.options(widths[i], "fc" + std::to_string(i));
    options.input_quantizer = fixed_input;
    h = linear(net.graph, h, options);
    if (i + 1 < widths.size()) h = net.add(Relu{}, {h});
  }
  return net.ending_in(h);
}

WholeNet convolutional(int64_t batch) {
  WholeNet net({batch, 9, 7, 3});
  LayerOptions first = net.options(8, "conv1");
  first.input_quantizer = fixed_input;
  NodeId h = conv2d(net.graph, net.x, {.padding = Padding::Same}, {3, 3}, first);
  h = net.quantized(net.add(Relu{}, {h}), fixed_input, "pooled");
  const NodeId skip = net.add(MaxPool{.kernel = {2, 2}, .stride = {2, 2}}, {h});
  h = conv2d(net.graph, skip, {.padding = Padding::Same}, {3, 3}, net.options(8, "conv2"));
  h = net.quantized(net.add(Relu6{}, {h}), fixed_input, "branch");
  h = net.quantized(net.add(Add{}, {h, skip}), fixed_input, "sum");
  h = net.add(Flatten{}, {net.add(MaxPool{.kernel = {3, 2}, .stride = {1, 2}}, {h})});
  return net.ending_in(linear(net.graph, h, net.options(5, "fc")));
}

/// A quantizer that is read by a layer and by a product of activations.
WholeNet products_of_activations() {
  WholeNet net({2, 5, 8});
  const NodeId q = net.quantized(net.x, fixed_input, "q");
  const NodeId r = net.quantized(net.x, fixed_input, "r");
  const NodeId scores = net.add(MatMul{.transpose_b = true}, {q, r});
  return net.ending_in(net.add(Add{}, {linear(net.graph, q, net.options(5, "fc")), scores}));
}

/// Results of one step: the outputs and all gradients.
struct Step1 {
  std::vector<float> y;
  std::vector<float> dx;
  std::vector<std::vector<float>> gradients;
  bool operator==(const Step1&) const = default;
};

void fill_input(std::span<float> x) {
  const Random random(3, 2);
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = std::ldexp(static_cast<float>(static_cast<int64_t>(random.below(i, 24)) - 8), -3);
  }
}

Step1 run_step(const WholeNet& net, const TapeOptions& options, const PlanHooks& hooks = {}) {
  Parameters parameters(net.graph, 1);
  net.fill(parameters);
  Tape tape(net.graph, parameters, options, hooks);
  fill_input(tape.input<float>(net.x));
  tape.forward(mode::qat);
  const auto y = tape.value<float>(net.y);
  std::vector<float> dy(y.size());
  for (size_t i = 0; i < dy.size(); ++i) dy[i] = static_cast<float>(i * 7 % 5) - 2;
  Step1 step{.y = copied(y)};
  tape.backward<float>(net.y, dy);
  step.dx = copied(tape.input_gradient<float>(net.x));
  for (const ParameterEntry& entry : parameters.entries()) {
    if (!entry.trainable()) continue;
    step.gradients.push_back(copied(entry.gradients<float>()));
  }
  CHECK(tape.guards_intact());
  return step;
}

TapeOptions options_of(const WholeNet& net, int threads, Arithmetic arithmetic) {
  return {.roots = {net.y},
          .input_gradients = {net.x},
          .threads = threads,
          .arithmetic = std::move(arithmetic)};
}

std::vector<WholeNet> nets() {
  return {dense({5, 24}, {16, 12, 3}), dense({3, 4, 40}, {33, 7}),
          dense({130, 24}, {640, 520, 10}),  // columns of weights, several tiles
          convolutional(3), products_of_activations()};
}

/// Returns the nets whose quantizers are read only by products with weights.
std::vector<WholeNet> nets_of_codes() {
  std::vector<WholeNet> all = nets();
  all.pop_back();
  return all;
}

bool holds_codes(const Tape& tape) {
  return std::ranges::any_of(tape.memory().nodes,
                             [](const NodePlan& each) { return each.encoded.has_value(); });
}

}  // namespace

TEST_CASE("codes_forward: outputs and gradients are those of values where sums are exact") {
  for (const WholeNet& net : nets()) {
    const Step1 expected = run_step(net, options_of(net, 1, {}));
    for (int threads : {1, 2, 4}) {
      CHECK(run_step(net, options_of(net, threads, products_of_codes())) == expected);
    }
  }
}

TEST_CASE("codes_forward: exact steps that hold codes give what those give that hold values") {
  for (const WholeNet& net : nets()) {
    for (Requantization requantization : requantization::values) {
      const Step1 expected =
          run_step(net, options_of(net, 1, exact(requantization, {.keep = true})));
      for (int threads : {1, 3}) {
        CHECK(run_step(net, options_of(net, threads, exact(requantization))) == expected);
      }
    }
  }
  for (const WholeNet& net : nets_of_codes()) {
    Parameters parameters(net.graph, 1);
    const Requantization any = Requantization::SingleRounding;
    CHECK(holds_codes(Tape(net.graph, parameters, options_of(net, 1, exact(any)))));
    CHECK(!holds_codes(Tape(net.graph, parameters, {.arithmetic = exact(any)})));
  }
}

TEST_CASE("codes_forward: values of quantizers are held as codes, in less memory") {
  for (const WholeNet& net : nets_of_codes()) {
    Parameters parameters(net.graph, 1);
    const Tape codes(net.graph, parameters, options_of(net, 1, products_of_codes()));
    const Tape values(net.graph, parameters, options_of(net, 1, {}));
    CHECK(holds_codes(codes));
    CHECK(!holds_codes(values));
    CHECK(codes.memory().arena_bytes < values.memory().arena_bytes);
  }
}

TEST_CASE("codes_forward: memory that is not shared gives the same, and guards stay intact") {
  for (const WholeNet& net : nets()) {
    const TapeOptions options = options_of(net, 2, products_of_codes());
    const PlanHooks apart{.share_memory = false, .guard_bytes = 64};
    Parameters parameters(net.graph, 1);
    CHECK(holds_codes(Tape(net.graph, parameters, options, apart)));
    CHECK(run_step(net, options, apart) == run_step(net, options));
  }
}

TEST_CASE("codes_forward: steps that do not quantize run in floats, and others go on") {
  for (const WholeNet& net : nets()) {
    Parameters parameters(net.graph, 1);
    net.fill(parameters);
    Tape codes(net.graph, parameters, options_of(net, 2, products_of_codes()));
    Tape values(net.graph, parameters, options_of(net, 2, {}));
    fill_input(codes.input<float>(net.x));
    fill_input(values.input<float>(net.x));
    const auto compare = [&](Mode mode) {
      codes.forward(mode);
      values.forward(mode);
      CHECK(copied(codes.value<float>(net.y)) == copied(values.value<float>(net.y)));
      const std::vector<float> dy(codes.value<float>(net.y).size(), 1.0f);
      codes.backward<float>(net.y, dy);
      const auto dx = copied(codes.input_gradient<float>(net.x));
      values.backward<float>(net.y, dy);
      CHECK(dx == copied(values.input_gradient<float>(net.x)));
    };
    for (Mode mode : {mode::qat, mode::float_train, mode::eval, mode::float_eval, mode::qat}) {
      compare(mode);
    }
    const NodeId first = quantizers(net.graph).front();
    for (bool enabled : {false, true}) {
      codes.status(first).enabled = values.status(first).enabled = enabled;
      compare(mode::qat);
    }
  }
}

TEST_CASE("codes_forward: a NaN makes what is computed of it NaN") {
  const WholeNet net = nets()[0];
  Parameters parameters(net.graph, 1);
  net.fill(parameters);
  Tape tape(net.graph, parameters, options_of(net, 2, products_of_codes()));
  fill_input(tape.input<float>(net.x));
  tape.forward(mode::qat);
  const auto before = copied(tape.value<float>(net.y));
  tape.input<float>(net.x)[3] = std::numeric_limits<float>::quiet_NaN();
  tape.forward(mode::qat);
  for (float v : tape.value<float>(net.y)) CHECK(v != v);
  fill_input(tape.input<float>(net.x));
  tape.forward(mode::qat);
  CHECK(copied(tape.value<float>(net.y)) == before);
}

TEST_CASE("codes_forward: a scale that was never set is a fault, and training goes on") {
  const WholeNet net = nets()[0];
  Parameters parameters(net.graph, 1);
  Tape tape(net.graph, parameters, options_of(net, 2, products_of_codes()));
  fill_input(tape.input<float>(net.x));
  CHECK_THROWS_AS(tape.forward(mode::qat), GraphError);
  net.fill(parameters);
  tape.forward(mode::qat);
  for (float v : tape.value<float>(net.y)) CHECK(v == v);
}

TEST_CASE("codes_forward: outputs that users ask for stay values") {
  WholeNet net = nets()[0];
  const NodeId quantizer = quantizers(net.graph).back();
  net.graph.set_outputs({quantizer, net.y});
  Parameters parameters(net.graph, 1);
  net.fill(parameters);
  Tape tape(net.graph, parameters, {.threads = 1, .arithmetic = products_of_codes()});
  fill_input(tape.input<float>(net.x));
  tape.forward(mode::eval);
  CHECK(!tape.memory().nodes[at(quantizer)].encoded);
  CHECK(!tape.value<float>(quantizer).empty());
}

TEST_CASE("codes_forward: sums beyond 32 bits are exact") {
  constexpr int64_t terms = 70'000;
  WholeNet net = dense({1, terms}, {1});
  Parameters parameters(net.graph, 1);
  for (NodeId id : quantizers(net.graph)) set_qparams(net.graph, parameters, id, 1);
  std::ranges::fill(parameters.at("fc0.weight").values<float>(), -127.0f);
  Tape tape(net.graph, parameters, {.threads = 1, .arithmetic = products_of_codes()});
  std::ranges::fill(tape.input<float>("x"), 255.0f);
  tape.forward(mode::eval);
  CHECK(tape.value<float>(net.y)[0] == static_cast<float>(-127 * 255 * terms));
}
