// Gradients whose products are computed in bf16.
#include <doctest/doctest.h>

#include <algorithm>

#include "qtape/core/random.h"
#include "qtape/engine/plan_hooks.h"
#include "qtape/engine/tape.h"
#include "qtape/integer/training/codes_forward.h"
#include "qtape/kernels/onednn/gemm.h"
#include "qtape/model/layers.h"

using namespace qtape;

namespace {

const FakeQuantize weight{.axis = 0};
const FakeQuantize input{.range = CodeRange::Unsigned, .scale_mode = EMA{}};

/// One product of x, whose gradients depend on values written by the test.
struct Net {
  Graph graph;
  NodeId x, y;

  Net(const Shape& shape) : x(graph.add(Input{.shape = shape}, {}, "x")) {}
  NodeId parameter(const Shape& shape) { return graph.add(Parameter{.shape = shape}, {}, "w"); }
  template <class X>
  Net& of(const X& op, const Shape& filters) {
    y = graph.add(op, {x, parameter(filters)});
    return *this;
  }
};

std::vector<Net> products() {
  return {Net({130, 70}).of(MatMul{}, {70, 90}),
          Net({130, 70}).of(MatMul{.transpose_b = true}, {90, 70}),
          Net({70, 130}).of(MatMul{.transpose_a = true}, {70, 90}),
          Net({70, 130}).of(MatMul{.transpose_a = true, .transpose_b = true}, {90, 70}),
          Net({3, 5, 70}).of(MatMul{.transpose_b = true}, {90, 70}),
          Net({3, 5, 70}).of(MatMul{}, {3, 70, 9}),
          Net({4, 9, 7, 16}).of(Conv2d{.padding = Padding::Same}, {24, 3, 3, 16}),
          Net({4, 9, 7, 1}).of(Conv2d{}, {8, 3, 3, 1}),
          Net({4, 9, 7, 8}).of(Conv2d{.groups = 8}, {8, 3, 3, 1}),
          Net({4, 30, 6}).of(Conv1d{}, {8, 5, 6}),
          Net({4, 5, 6, 16}).of(ConvTranspose2d{.stride = {2, 2}}, {8, 3, 3, 16})};
}

struct Gradients {
  std::vector<float> dx, dw;
  bool operator==(const Gradients&) const = default;
};

/// `whole`: draws integers that bf16 represents exactly.
Gradients gradients(const Net& net, bool whole, TapeOptions options) {
  Parameters parameters(net.graph, 1);
  const auto fill = [&](std::span<float> x, uint64_t seed) {
    const Random random(seed, 0);
    for (size_t i = 0; i < x.size(); ++i) {
      x[i] = whole ? static_cast<float>(random.below(i, 31)) - 15
                   : static_cast<float>(random.uniform(i));
    }
  };
  const ParameterEntry& w = parameters.at("w");
  fill(w.values<float>(), 1);
  options.roots = {net.y};
  options.input_gradients = {net.x};
  Tape tape(net.graph, parameters, std::move(options),
            PlanHooks{.share_memory = false, .guard_bytes = 64});
  fill(tape.input<float>(net.x), 2);
  tape.forward(mode::qat);
  std::vector<float> dy(static_cast<size_t>(net.graph[net.y].type.elements()));
  fill(dy, 3);
  tape.backward<float>(net.y, dy);
  const auto dx = tape.input_gradient<float>(net.x);
  CHECK(tape.guards_intact());
  const auto* dw = reinterpret_cast<const float*>(w.gradient);
  return {{dx.begin(), dx.end()}, {dw, dw + w.elements()}};
}

constexpr auto bf16 = GradientPrecision::BF16;

}  // namespace

TEST_CASE("gradient precision: what bf16 holds has the gradients of f32") {
  if (!kernels::has_bf16_products()) return;
  for (const Net& net : products()) {
    CAPTURE(net.graph.describe(net.y));
    CHECK(gradients(net, true, {.gradient_precision = bf16}) == gradients(net, true, {}));
  }
}

TEST_CASE("gradient precision: other operands are rounded, equally at any thread count") {
  if (!kernels::has_bf16_products()) return;
  for (const Net& net : products()) {
    CAPTURE(net.graph.describe(net.y));
    const auto one = gradients(net, false, {.threads = 1, .gradient_precision = bf16});
    const auto plain = gradients(net, false, {.threads = 1});
    CHECK((one.dx != plain.dx || one.dw != plain.dw));
    if (std::holds_alternative<MatMul>(net.graph[net.y].op)) {
      CHECK(one.dx != plain.dx);
      CHECK(one.dw != plain.dw);
    }
    for (int threads : {2, 4}) {
      CHECK(gradients(net, false, {.threads = threads, .gradient_precision = bf16}) == one);
    }
  }
}

TEST_CASE("gradient precision: operands that are held as codes give what values give") {
  if (!kernels::has_bf16_products()) return;
  for (int64_t width : {70, 1100}) {  // the larger weights are quantized again
    Graph graph;
    const NodeId x = graph.add(Input{.shape = {33, 1024}}, {}, "x");
    LayerOptions layer{.out = width,
                       .weight_quantizer = weight,
                       .input_quantizer = input,
                       .bias_on_grid = false,
                       .label = "fc"};
    const NodeId y = linear(graph, x, layer);
    graph.set_outputs({y});
    std::vector<std::vector<float>> found;
    for (const Arithmetic& arithmetic : {Arithmetic{}, products_of_codes()}) {
      Parameters parameters(graph, 1);
      Tape tape(graph, parameters,
                {.roots = {y},
                 .input_gradients = {x},
                 .threads = 2,
                 .arithmetic = arithmetic,
                 .gradient_precision = bf16});
      const Random random(5, 0);
      const auto values = tape.input<float>(x);
      for (size_t i = 0; i < values.size(); ++i) {
        values[i] = static_cast<float>(random.uniform(i));
      }
      if (arithmetic.prepare) {
        const auto& nodes = tape.memory().nodes;
        CHECK(std::ranges::any_of(nodes,
                                  [](const NodePlan& n) { return n.encoded.has_value(); }));
        CHECK((width > 1000) == std::ranges::any_of(nodes, [](const NodePlan& n) {
                return std::ranges::find(n.made_again, true) != n.made_again.end();
              }));
      }
      tape.forward(mode::qat);
      const std::vector<float> dy(static_cast<size_t>(33 * width), 0.37f);
      tape.backward<float>(y, dy);
      const auto dx = tape.input_gradient<float>(x);
      std::vector<float> all(dx.begin(), dx.end());
      for (const ParameterEntry& entry : parameters.entries()) {
        if (!entry.trainable()) continue;
        const auto* g = reinterpret_cast<const float*>(entry.gradient);
        all.insert(all.end(), g, g + entry.elements());
      }
      found.push_back(std::move(all));
    }
    CHECK(found[0] == found[1]);
  }
}

TEST_CASE("gradient precision: sums go on where gradients add up, and f64 stays f64") {
  if (!kernels::has_bf16_products()) return;
  for (const Net& net : products()) {
    CAPTURE(net.graph.describe(net.y));
    const TapeOptions adding{.accumulate_gradients = true, .gradient_precision = bf16};
    CHECK(gradients(net, true, adding) == gradients(net, true, {.accumulate_gradients = true}));
  }
  std::vector<std::vector<double>> found;
  for (GradientPrecision precision : {GradientPrecision::F32, bf16}) {
    Graph graph;
    const NodeId x = graph.add(Input{.dtype = DType::F64, .shape = {9, 20}}, {}, "x");
    const NodeId w = graph.add(Parameter{.dtype = DType::F64, .shape = {20, 8}}, {}, "w");
    const NodeId y = graph.add(MatMul{}, {x, w});
    Parameters parameters(graph, 1);
    Tape tape(graph, parameters,
              {.roots = {y}, .input_gradients = {x}, .gradient_precision = precision});
    std::ranges::fill(tape.input<double>(x), 0.1);
    tape.forward(mode::float_train);
    const std::vector<double> dy(72, 0.3);
    tape.backward<double>(y, dy);
    const auto dx = tape.input_gradient<double>(x);
    found.emplace_back(dx.begin(), dx.end());
  }
  CHECK(found[0] == found[1]);
}
