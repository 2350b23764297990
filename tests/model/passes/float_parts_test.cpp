// Parts of a network that will have no integer form, found before training.
#include "qtape/model/passes/float_parts.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "qtape/engine/quantizers.h"
#include "qtape/model/bit_search.h"
#include "qtape/model/passes/fold_batch_norm.h"
#include "qtape/model/passes/insert_quantizers.h"
#include "qtape/tests/support/errors.h"
#include "qtape/tests/support/integer_nets.h"

using namespace qtape;
using test::error_text;

namespace {

/// Returns `node: what: remedy`, one per line.
std::string text_of(const std::vector<Finding>& parts) {
  std::string text;
  for (const Finding& part : parts) {
    CHECK(part.severity == Severity::Error);
    text += part.node + ": " + part.what + ": " + part.remedy + "\n";
  }
  return text;
}

Graph graph_of(const Value& answer) {
  Graph graph = answer.graph();
  graph.set_outputs({answer.id()});
  return graph;
}

data::Dataset samples(int64_t count, int64_t features) {
  std::vector<float> x;
  std::vector<int32_t> labels;
  for (int64_t i = 0; i < count * features; ++i) {
    x.push_back(static_cast<float>(i * 7919 % 100) / 50 - 1);
  }
  for (int64_t i = 0; i < count; ++i) labels.push_back(static_cast<int32_t>(i % 2));
  data::Dataset set;
  set.add("x", Tensor::of<float>({count, features}, x));
  set.add_target("labels", Tensor::of<int32_t>({count}, labels), 2);
  return set;
}

/// Returns x after it was f64.
Value widened(const Value& x, const std::string& label = {}) {
  return node(Cast{}, {node(Cast{.dtype = DType::F64}, {x}, label)});
}

/// Layers with values of f64 among them, two of which follow each other.
Graph parts_between_layers() {
  Network net;
  const Value first = widened(linear(net.input("x", {6}), 4), "first");
  const Value second = widened(relu(linear(first, 4)));
  return graph_of(linear(widened(second, "third"), 2));
}

constexpr const char* fault =
    "has integers only as the f32 of an ArgMax: feed the model f32, or end the model before it";

}  // namespace

TEST_CASE("float parts: all of them are told at once, each with what helps") {
  CHECK(text_of(float_parts(parts_between_layers())) ==
        fmt::format("Cast %5 'first': {0}\nCast %6: {0}\nCast %12: {0}\nCast %13: {0}\nCast "
                    "%14 'third': {0}\nCast %15: {0}\n",
                    fault));
}

TEST_CASE(
    "float parts: neither losses, a Softmax at the end nor what lacks quantizers are any") {
  Network net;
  const Value x = net.input("x", {4, 4, 2});
  const Value c = relu(conv2d(x, 3, {3, 3}, {.norm = true}, {.padding = Padding::Same}));
  const Value h = global_avg_pool(c + tanh(c));
  const Value answer = node(Softmax{}, {linear(h, 3)}, "answer");
  CHECK(text_of(float_parts(graph_of(answer))) == "");
  const Value loss = loss::cross_entropy(linear(h, 2));
  Graph graph = loss.graph();
  graph.set_outputs({graph[loss.id()].operands[0], loss.id()});
  CHECK(text_of(float_parts(graph)) == "");
  CHECK(text_of(float_parts(graph_of(sigmoid(linear(h, 3))))) == "");
  CHECK(text_of(float_parts(graph_of(c + c))) == "");
}

TEST_CASE("float parts: an answer that is a sum or a function gets a quantizer") {
  Network net;
  const Value x = net.input("x", {6});
  const Value h = relu(linear(x, 4));
  for (const Value& answer : {sigmoid(linear(h, 3)), linear(h, 4) + h}) {
    const Model model(answer);
    const data::Dataset set = samples(16, 6);
    const Model small = quantized(model, {}, set, 16, 1);
    CHECK(is_quantizer(small.graph()[small.answer()].op));
    CHECK(test::mismatch(verify(small, set)) == "");
  }
}

TEST_CASE("float parts: quantizing refuses them with the whole list, unless they are allowed") {
  const Model model(parts_between_layers());
  const data::Dataset set = samples(16, 6);
  const std::string list = fmt::format(
      "6 nodes would have no integer form: Cast %5 'first', Cast %6, Cast %12, Cast %13, Cast %14 "
      "'third', Cast %15: {0}; QuantizationRecipe::float_parts allows them",
      fault);
  CHECK(error_text<GraphError>([&] { (void)quantized(model, {}, set, 16, 1); }) == list);
  CHECK(error_text<GraphError>([&] { (void)quantized(model.graph(), {}); }) == list);
  const Model small = quantized(model, {.float_parts = true}, set, 16, 1);
  CHECK(small.graph().find("fc3.weight.quantized"));
  const Model trained = with_loss(Model(model.graph(), model.parameters()), set);
  CHECK(error_text<GraphError>([&] {
          (void)search_bits(trained, set, {.budget = 1000, .samples = 16, .threads = 1});
        }) == list);
  const BitSearch found = search_bits(trained, set,
                                      {.budget = 1000,
                                       .candidates = {8},
                                       .recipe = {.float_parts = true},
                                       .samples = 16,
                                       .threads = 1});
  CHECK(found.recipe.float_parts);
}

TEST_CASE("float parts: of a model with quantizers, what these leave out") {
  Network net;
  const Layer w8a8 = quantize::layer();
  const Value h = relu(linear(net.input("x", {6}), 4, w8a8));
  CHECK(unquantized_parts(graph_of(linear(h, 2, w8a8))).empty());
  const Graph lacking = graph_of(linear(h + h, 2, w8a8));
  CHECK(float_parts(lacking).empty());
  CHECK(text_of(unquantized_parts(lacking)) ==
        "Add %18: Relu %9 (%8 'fc1' f32[1, 4]) is not quantized: quantize its output\n");
  const Graph completed = insert_quantizers(lacking, calibrated_quantizers(8, 8));
  CHECK(unquantized_parts(completed).empty());
  CHECK(unquantized_parts(parts_between_layers()).empty());
  const Graph both = graph_of(linear(widened(linear(h + h, 4, w8a8), "product"), 2));
  CHECK(text_of(float_parts(both)) ==
        fmt::format("Cast %36 'product': {0}\nCast %37: {0}\n", fault));
  CHECK(text_of(unquantized_parts(both)).find("product") == std::string::npos);
}
