// Gradients whose products are computed in bf16.
#include <doctest/doctest.h>

#include <algorithm>

#include "qtape/engine/plan_hooks.h"
#include "qtape/engine/tape.h"
#include "qtape/integer/training/codes_forward.h"
#include "qtape/kernels/onednn/gemm.h"
#include "qtape/tests/support/skip.h"
#include "qtape/tests/support/small_nets.h"

using namespace qtape;

namespace {

/// One product of x, whose gradients depend on values written by the test.
struct Product : test::Net {
  NodeId y;

  template <class X>
  Product(const Shape& shape, const X& op, const Shape& filters)
      : Net(shape), y(add(op, {x, parameter(filters, "w")})) {}
};

std::vector<Product> products() {
  return {{{130, 70}, MatMul{}, {70, 90}},
          {{130, 70}, MatMul{.transpose_b = true}, {90, 70}},
          {{70, 130}, MatMul{.transpose_a = true}, {70, 90}},
          {{70, 130}, MatMul{.transpose_a = true, .transpose_b = true}, {90, 70}},
          {{3, 5, 70}, MatMul{.transpose_b = true}, {90, 70}},
          {{3, 5, 70}, MatMul{}, {3, 70, 9}},
          {{4, 9, 7, 16}, Conv2d{.padding = Padding::Same}, {24, 3, 3, 16}},
          {{4, 9, 7, 1}, Conv2d{}, {8, 3, 3, 1}},
          {{4, 9, 7, 8}, Conv2d{.groups = 8}, {8, 3, 3, 1}},
          {{4, 30, 6}, Conv1d{}, {8, 5, 6}},
          {{4, 5, 6, 16}, ConvTranspose2d{.stride = {2, 2}}, {8, 3, 3, 16}}};
}

struct Gradients {
  std::vector<float> dx, dw;
  bool operator==(const Gradients&) const = default;
};

/// `whole`: draws integers that bf16 represents exactly.
Gradients gradients(const Product& net, bool whole, TapeOptions options) {
  Parameters parameters(net.graph, 1);
  const auto fill = [&](std::span<float> x, uint64_t seed) {
    const Random random(seed, 0);
    if (!whole) return test::fill_uniform(x, random);
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(random.below(i, 31)) - 15;
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
  CHECK(tape.guards_intact());
  return {test::copied(tape.input_gradient<float>(net.x)), test::copied(w.gradients<float>())};
}

constexpr auto bf16 = GradientPrecision::BF16;

}  // namespace

TEST_CASE("gradient precision: what bf16 holds has the gradients of f32") {
  if (!kernels::has_bf16_products()) return test::skip("no products in bf16");
  for (const Product& net : products()) {
    CAPTURE(net.graph.describe(net.y));
    CHECK(gradients(net, true, {.gradient_precision = bf16}) == gradients(net, true, {}));
  }
}

TEST_CASE("gradient precision: other operands are rounded, equally at any thread count") {
  if (!kernels::has_bf16_products()) return test::skip("no products in bf16");
  for (const Product& net : products()) {
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
  if (!kernels::has_bf16_products()) return test::skip("no products in bf16");
  for (int64_t width : {70, 1100}) {  // the larger weights are quantized again
    test::Net net({33, 1024});
    const NodeId y = linear(
        net.graph, net.x,
        {.out = width,
         .weight_quantizer = FakeQuantize{.axis = 0},
         .input_quantizer = FakeQuantize{.range = CodeRange::Unsigned, .scale_mode = EMA{}},
         .bias_on_grid = false,
         .label = "fc"});
    net.graph.set_outputs({y});
    std::vector<std::vector<float>> found;
    for (const Arithmetic& arithmetic : {Arithmetic{}, products_of_codes()}) {
      Parameters parameters(net.graph, 1);
      Tape tape(net.graph, parameters,
                {.roots = {y},
                 .input_gradients = {net.x},
                 .threads = 2,
                 .arithmetic = arithmetic,
                 .gradient_precision = bf16});
      test::fill_uniform(tape.input<float>(net.x), Random(5, 0));
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
      std::vector<float> all = test::copied(tape.input_gradient<float>(net.x));
      for (const ParameterEntry& entry : parameters.entries()) {
        if (!entry.trainable()) continue;
        const auto g = entry.gradients<float>();
        all.insert(all.end(), g.begin(), g.end());
      }
      found.push_back(std::move(all));
    }
    CHECK(test::first_difference(found[1], found[0]) == "");
  }
}

TEST_CASE("gradient precision: sums go on where gradients add up, and f64 stays f64") {
  if (!kernels::has_bf16_products()) return test::skip("no products in bf16");
  for (const Product& net : products()) {
    CAPTURE(net.graph.describe(net.y));
    const TapeOptions adding{.accumulate_gradients = true, .gradient_precision = bf16};
    CHECK(gradients(net, true, adding) == gradients(net, true, {.accumulate_gradients = true}));
  }
  std::vector<std::vector<double>> found;
  for (GradientPrecision precision : {GradientPrecision::F32, bf16}) {
    test::Net net({9, 20}, "x", DType::F64);
    const NodeId w = net.add(Parameter{.dtype = DType::F64, .shape = {20, 8}}, {}, "w");
    const NodeId y = net.add(MatMul{}, {net.x, w});
    Parameters parameters(net.graph, 1);
    Tape tape(net.graph, parameters,
              {.roots = {y}, .input_gradients = {net.x}, .gradient_precision = precision});
    std::ranges::fill(tape.input<double>(net.x), 0.1);
    tape.forward(mode::float_train);
    const std::vector<double> dy(72, 0.3);
    tape.backward<double>(y, dy);
    found.push_back(test::copied(tape.input_gradient<double>(net.x)));
  }
  CHECK(found[0] == found[1]);
}
