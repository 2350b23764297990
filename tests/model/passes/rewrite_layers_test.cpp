// Layers that become other layers because those have integers.
#include "qtape/model/passes/rewrite_layers.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "qtape/model/passes/float_parts.h"
#include "qtape/model/passes/insert_quantizers.h"
#include "qtape/model/passes/sub_pixel.h"
#include "qtape/tests/support/integer_nets.h"
#include "qtape/tests/support/small_nets.h"

using namespace qtape;

namespace {

/// Fills values with small whole numbers, of which sums of products are exact in any order.
void fill_whole(std::span<float> x, const Random& random) {
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<float>(random.below(i, 9)) - 4;
  }
}

void fill_whole(const Parameters& parameters) {
  uint64_t stream = 0;
  for (const ParameterEntry& each : parameters.entries()) {
    fill_whole(each.values<float>(), Random(5, ++stream));
  }
}

/// Returns the answer, and the gradients of the sum of its elements, for whole-numbered inputs.
std::vector<std::vector<float>> results(const Graph& graph, Parameters& parameters) {
  Graph with_loss = graph;
  const NodeId answer = graph.outputs()[0];
  const NodeId loss = with_loss.add(Sum{}, {answer});
  with_loss.set_outputs({answer, loss}, {loss});
  Tape tape(with_loss, parameters, {.roots = {loss}});
  fill_whole(tape.input<float>("x"), Random(3, 1));
  parameters.zero_gradients();
  tape.forward(mode::float_train);
  std::vector<std::vector<float>> found = {test::copied(tape.value<float>(answer))};
  tape.backward();
  for (const ParameterEntry& each : parameters.entries()) {
    if (each.trainable()) found.push_back(test::copied(each.gradients<float>()));
  }
  return found;
}

/// A transposed convolution with random attributes, with a bias and a Relu.
Graph random_upsampling(uint64_t seed) {
  const Random random(seed, 7);
  const auto pick = [&](uint64_t i, int64_t most) {
    return 1 + static_cast<int64_t>(random.below(i, static_cast<uint64_t>(most)));
  };
  const int64_t groups = pick(0, 2), in = 2 * groups * pick(1, 2), out = groups * pick(2, 2);
  const Shape kernel = {pick(3, 4), pick(4, 4)}, stride = {pick(5, 3), pick(6, 3)};
  const Shape dilation = {pick(7, 2), pick(8, 2)};
  const auto pad = [&](uint64_t i, int axis) {
    const int64_t span = (kernel[axis] - 1) * dilation[axis] + 1;
    return static_cast<int64_t>(random.below(i, static_cast<uint64_t>(span)));
  };
  test::Net net({2, 3 + pick(9, 2), 3 + pick(10, 2), in});
  const NodeId w = net.parameter({out, kernel[0], kernel[1], in / groups}, "up.weight");
  const ConvTranspose2d op{
      .stride = stride,
      .padding = Padding::Explicit,
      .pads_begin = {pad(11, 0), pad(12, 1)},
      .pads_end = {pad(13, 0), pad(14, 1)},
      .dilation = dilation,
      .groups = groups,
      .output_padding = {pick(15, stride[0]) - 1, pick(16, stride[1]) - 1}};
  const NodeId y = net.add(op, {net.x, w});
  const NodeId sum = net.add(AddBias{}, {y, net.parameter({out}, "up.bias")}, "up");
  net.graph.set_outputs({net.add(Relu{}, {sum}, "answer")});
  return net.graph;
}

bool has(const Graph& graph, std::string_view op) {
  return std::ranges::any_of(graph.nodes(),
                             [&](const Node& node) { return name_of(node.op) == op; });
}

/// Answers of both graphs for the same inputs differ by roundings alone.
void check_close(const Graph& graph, const Parameters& parameters, const SavedModel& other) {
  const auto answer = [](const Graph& each, const Parameters& values) {
    Tape tape(each, values, {});
    test::fill_uniform(tape.input<float>("x"), Random(3, 2), -2, 2);
    tape.forward(mode::eval);
    return test::copied(tape.value<float>(each.outputs()[0]));
  };
  const auto wanted = answer(graph, parameters), got = answer(other.graph, other.parameters);
  REQUIRE(wanted.size() == got.size());
  for (size_t i = 0; i < got.size(); ++i) {
    CHECK(double{got[i]} == doctest::Approx(double{wanted[i]}).epsilon(1e-5));
  }
}

/// All levels agree on the network with quantizers.
void check_integers(const Graph& graph, int bits = 8) {
  CHECK(float_parts(graph).empty());
  const Graph quantized = insert_quantizers(graph, calibrated_quantizers(bits, bits));
  test::Settled net(quantized, 4);
  if (const ParameterEntry* divisor = net.parameters.find("d")) {
    test::fill_uniform(divisor->values<float>(), Random(6, 1), 0.5, 1.5);
    test::settle(net.graph, net.parameters, 4);
  }
  CHECK(test::disagreement(std::move(net), 4, test::Effort::Some) == "");
}

}  // namespace

TEST_CASE("rewrite: a transposed convolution and its phases compute the same, backward too") {
  int cropped = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    Graph graph;
    try {
      graph = random_upsampling(seed);
    } catch (const GraphError&) {
      continue;  // its padding leaves no elements
    }
    SubPixelGraph phases = sub_pixel_convolutions(graph);
    REQUIRE(phases.labels == std::vector<std::string>{"up"});
    CHECK(!has(phases.graph, "ConvTranspose2d"));
    CHECK(phases.graph[phases.graph.at("answer")].type == graph[graph.at("answer")].type);
    cropped += has(phases.graph, "Slice") ? 1 : 0;
    Parameters before(graph, 1), after(phases.graph, 1);
    fill_whole(before);
    fill_whole(after);
    CHECK(results(phases.graph, after) == results(graph, before));
  }
  CHECK(cropped > 20);
}

TEST_CASE("rewrite: phases have integers") {
  for (uint64_t seed = 0; seed < 12; ++seed) {
    CAPTURE(seed);
    try {
      check_integers(sub_pixel_convolutions(random_upsampling(seed)).graph);
    } catch (const GraphError& error) {
      CHECK(std::string(error.what()).find("leaves none of the") != std::string::npos);
    }
  }
}

TEST_CASE("rewrite: a transposed convolution with filters that depend on inputs stays") {
  test::Net net({2, 3, 3, 2});
  const NodeId w = net.add(Input{.shape = {2, 2, 2, 2}, .batch = false}, {}, "w");
  net.graph.set_outputs({net.add(ConvTranspose2d{}, {net.x, w})});
  CHECK(sub_pixel_convolutions(net.graph).labels.empty());
}

TEST_CASE("rewrite: norms, scales and offsets without a product get integers") {
  struct Row {
    const char* name;
    Shape x;
    std::function<NodeId(test::Net&, NodeId)> part;
    std::vector<std::string> folded;
    std::vector<std::string> rewritten;
  };
  const auto norm = [](test::Net& n, NodeId x) {
    return batch_norm(n.graph, x, {.label = "norm"});
  };
  const auto scaled = [](test::Net& n, NodeId x) {
    return n.add(Mul{}, {x, n.parameter({n.graph[x].type.shape[-1]}, "s")}, "scaled");
  };
  const auto standardized = [](test::Net& n, NodeId x) {
    const int64_t c = n.graph[x].type.shape[-1];
    const NodeId centred = n.add(Sub{}, {x, n.parameter({1, 1, c}, "mean")});
    return n.add(Div{}, {centred, n.parameter({c}, "std")}, "standardized");
  };
  const auto turned = [](test::Net& n, NodeId x) {
    return n.add(Sub{}, {n.parameter({1}, "one"), x}, "turned");
  };
  const auto quotient = [](test::Net& n, NodeId x) {
    return n.add(Div{}, {x, n.parameter({3, 1, 1}, "d")}, "quotient");
  };
  const auto softmax = [](test::Net& n, NodeId x) {
    return n.add(Softmax{.axis = 1}, {x}, "p");
  };
  const auto two = [](test::Net& n, NodeId x) {
    const NodeId first = n.add(LogSoftmax{}, {n.add(Softmax{.axis = 1}, {x})}, "log");
    return n.add(Mul{}, {first, n.add(Softmax{}, {x})});
  };
  const auto twice = [](test::Net& n, NodeId x) {
    return n.add(Add{}, {batch_norm(n.graph, x, {.label = "norm"}), x}, "sum");
  };
  const Row rows[] = {{"norm of a matrix", {4, 6}, norm, {"norm"}, {}},
                      {"norm of rows", {4, 3, 6}, norm, {"norm"}, {}},
                      {"norm of images", {2, 3, 3, 4}, norm, {"norm"}, {}},
                      {"norm of five axes", {2, 2, 3, 3, 4}, norm, {"norm"}, {}},
                      {"norm beside another reader", {2, 3, 3, 4}, twice, {"norm"}, {}},
                      {"scale", {2, 3, 3, 4}, scaled, {}, {"scaled"}},
                      {"standardized", {2, 3, 3, 4}, standardized, {}, {"standardized"}},
                      {"one number", {4, 6}, turned, {}, {"turned"}},
                      {"quotient by a constant", {2, 3, 3, 4}, quotient, {}, {"quotient"}},
                      {"softmax over positions", {2, 3, 3, 4}, softmax, {}, {"p"}},
                      {"softmaxes without labels",
                       {4, 6},
                       two,
                       {},
                       {"Softmax after x", "log", "Softmax after x"}}};
  for (const Row& row : rows) {
    CAPTURE(row.name);
    test::Net net(row.x);
    const NodeId h = net.add(Tanh{}, {row.part(net, net.x)});
    const NodeId flat = net.add(Flatten{}, {h});
    net.graph.set_outputs({linear(net.graph, flat, {.out = 3, .label = "fc"})});
    Parameters parameters(net.graph, 2);
    uint64_t stream = 0;
    for (const ParameterEntry& each : parameters.entries()) {
      test::fill_uniform(each.values<float>(), Random(6, ++stream), 0.5, 1.5);
    }
    RewrittenLayers result = rewrite_layers(net.graph, parameters);
    CHECK(result.folded == row.folded);
    CHECK(fmt::format("{}", fmt::join(result.rewritten, " ")) ==
          fmt::format("{}", fmt::join(row.rewritten, " ")));
    REQUIRE(result.model);
    for (const char* op : {"BatchNorm", "Softmax", "LogSoftmax"}) {
      CHECK(!has(result.model->graph, op));
    }
    for (const char* gone : {"mean", "std", "s", "one"}) CHECK(!result.model->graph.find(gone));
    check_close(net.graph, parameters, *result.model);
    check_integers(result.model->graph);
  }
}

TEST_CASE("rewrite: borders far from the values, and below maxima, stay") {
  for (const double value : {-1e9, 1e9, -1.0}) {
    for (const bool pooled : {true, false}) {
      test::Net net({1, 4, 4, 3});
      const NodeId w = net.parameter({3, 3}, "w");
      const NodeId pad = net.add(
          Pad{.begin = {0, 1, 1, 0}, .end = {0, 1, 1, 0}, .value = value}, {net.x}, "pad");
      const NodeId y = pooled ? net.add(MaxPool{.kernel = {3, 3}}, {pad}) : pad;
      net.graph.set_outputs({net.add(MatMul{}, {y, w}, "y")});
      const Parameters parameters(net.graph, 1);
      const bool stays = std::fabs(value) > 1 || pooled;
      CAPTURE(value);
      CAPTURE(pooled);
      CHECK(rewrite_layers(net.graph, parameters).rewritten.empty() == stays);
    }
  }
}

TEST_CASE("rewrite: names of nodes without labels, and norms that were scales") {
  test::Net net({2, 6});
  const NodeId scaled =
      net.add(Mul{}, {net.add(Relu{}, {net.x}, "h"), net.parameter({6}, "s")});
  const NodeId shifted = net.add(Add{}, {scaled, net.parameter({6}, "b")});
  const NodeId norm = batch_norm(net.graph, net.add(Tanh{}, {shifted}), {});
  net.graph.set_outputs(
      {linear(net.graph, net.add(Relu{}, {norm}), {.out = 3, .label = "fc"})});
  const RewrittenLayers made = rewrite_layers(net.graph, Parameters(net.graph, 1));
  CHECK(made.rewritten == std::vector<std::string>{"Add after h"});
  CHECK(fmt::format("{}", fmt::join(made.folded, ", ")) == "batch_norm");
}

TEST_CASE("rewrite: readers that no output needs hold nothing up") {
  Graph graph = random_upsampling(0);
  graph.add(Neg{}, {graph[graph.at("up")].operands[0]});
  const RewrittenLayers made = rewrite_layers(graph, Parameters(graph, 1));
  CHECK(made.rewritten == std::vector<std::string>{"up"});
  REQUIRE(made.model);
  CHECK(!rewrite_layers(made.model->graph, made.model->parameters).model);
}

TEST_CASE("rewrite: a norm of no elements stays") {
  Graph graph;
  const NodeId x = graph.add(Input{.shape = {0, 4}, .batch = false}, {}, "x");
  graph.set_outputs({batch_norm(graph, x, {.label = "norm"})});
  CHECK(!rewrite_layers(graph, Parameters(graph, 1)).model);
}

TEST_CASE("rewrite: the sum of a Softmax is at least 1, however coarse its codes are") {
  test::Net net({2, 64});
  const NodeId h = net.add(Tanh{}, {net.x});
  const NodeId p = net.add(Softmax{}, {h}, "p");
  // Labels that the parts would have.
  const NodeId taken = net.add(LogSoftmax{}, {net.add(Relu{}, {p}, "p.sum")});
  net.graph.set_outputs({linear(net.graph, taken, {.out = 3, .label = "fc"})});
  Parameters parameters(net.graph, 1);
  const RewrittenLayers result = rewrite_layers(net.graph, parameters);
  REQUIRE(result.model);
  for (const int bits : {2, 4, 8}) {
    CAPTURE(bits);
    check_integers(result.model->graph, bits);
    const Graph graph =
        insert_quantizers(result.model->graph, calibrated_quantizers(bits, bits));
    Parameters values(graph, 1);
    // The codes of the sum begin with 0 and 70, between which lies the 1 of a single class.
    for (const NodeId id : quantizers(graph)) {
      if (graph[id].type.shape == Shape{2, 1}) set_qparams(graph, values, id, 70);
    }
    for (const std::vector<float>& each : results(graph, values)) {
      CHECK(std::ranges::all_of(each, [](float x) { return std::isfinite(x); }));
    }
  }
}

TEST_CASE("rewrite: a border of a number lies around differences to it") {
  for (const double value : {-5.0, 0.75}) {
    test::Net net({2, 4, 3});
    const NodeId h = net.add(Relu{}, {linear(net.graph, net.x, {.out = 3, .label = "one"})});
    const NodeId y =
        net.add(Pad{.begin = {0, 2, 0}, .end = {0, 1, 0}, .value = value}, {h}, "y");
    net.graph.set_outputs({linear(net.graph, y, {.out = 3, .label = "two"})});
    const Parameters parameters(net.graph, 1);
    const RewrittenLayers result = rewrite_layers(net.graph, parameters);
    REQUIRE(result.model);
    CHECK(result.rewritten == std::vector<std::string>{"y"});
    check_close(net.graph, parameters, *result.model);
    check_integers(result.model->graph);
    // The quantizer of the product reads the border.
    const Graph graph = insert_quantizers(result.model->graph, calibrated_quantizers(8, 8));
    const Node& quantizer = graph[graph.at("two.input.quantized")];
    CHECK(graph[quantizer.operands[0]].label == "y");
  }
}

TEST_CASE("rewrite: a division by a constant with 0 stays") {
  test::Net net({2, 3});
  const NodeId d = net.parameter({1, 3}, "d");
  const NodeId y = net.add(Div{}, {net.add(Tanh{}, {net.x}), d}, "y");
  net.graph.set_outputs({net.add(Tanh{}, {y})});
  Parameters parameters(net.graph, 1);
  for (const float each : {0.0f, 2.0f}) {
    parameters.set("d", Tensor::of<float>({1, 3}, std::vector<float>{1, each, 4}));
    const RewrittenLayers result = rewrite_layers(net.graph, parameters);
    const Graph& graph = result.model ? result.model->graph : net.graph;
    CHECK(has(graph, "Div") == (each == 0));
  }
}

TEST_CASE("rewrite: layers that have integers stay") {
  test::Net net({4, 6});
  const NodeId one = linear(net.graph, net.x, {.out = 5, .label = "one"});
  const NodeId two = net.add(Affine{.factor = 2}, {net.add(Relu{}, {one})});
  net.graph.set_outputs({linear(net.graph, two, {.out = 3, .label = "two"})});
  CHECK(!rewrite_layers(net.graph, Parameters(net.graph, 1)).model);
  net.graph.set_outputs({net.add(Softmax{}, {net.graph.outputs()[0]}, "probabilities")});
  CHECK(!rewrite_layers(net.graph, Parameters(net.graph, 1)).model);
}
