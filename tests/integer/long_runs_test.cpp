// 200 training steps give the same parameters in every execution mode.
#include <doctest/doctest.h>

#include <thread>

#include "qtape/engine/plan_hooks.h"
#include "qtape/integer/training/exact.h"
#include "qtape/kernels/onednn/gemm.h"
#include "qtape/optim/optimizer.h"
#include "qtape/tests/support/small_nets.h"

using namespace qtape;

namespace {

LayerOptions layer(int64_t out, const std::string& label, bool delayed = false) {
  return {.out = out,
          .weight_quantizer = FakeQuantize{.axis = 0, .ste = Ste::ClippedIdentity},
          .input_quantizer = FakeQuantize{.range = CodeRange::Unsigned,
                                          .ste = Ste::ClippedIdentity,
                                          .scale_mode = EMA{.delayed = delayed}},
          .label = label};
}

NodeId finish(Graph& graph, NodeId logits, int64_t batch) {
  const NodeId labels = graph.add(Input{.dtype = DType::S32, .shape = {batch}}, {}, "labels");
  const NodeId loss = graph.add(SoftmaxCrossEntropy{}, {logits, labels}, "loss");
  graph.set_outputs({loss});
  return loss;
}

/// Wide enough for products with several tiles.
Graph dense() {
  Graph graph;
  NodeId x = graph.add(Input{.shape = {96, 200}}, {}, "x");
  x = graph.add(Relu{}, {linear(graph, x, layer(160, "fc1"))});
  x = graph.add(Relu{}, {linear(graph, x, layer(96, "fc2", true))});
  finish(graph, linear(graph, x, layer(10, "fc3")), 96);
  return graph;
}

Graph convolutional() {
  Graph graph;
  NodeId x = graph.add(Input{.shape = {16, 14, 14, 1}}, {}, "x");
  x = conv2d(graph, x, {.padding = Padding::Same}, {3, 3}, layer(16, "conv1"));
  x = graph.add(MaxPool{.kernel = {2, 2}}, {graph.add(Relu{}, {x})});
  x = conv2d(graph, x, {.padding = Padding::Same}, {3, 3}, layer(24, "conv2"));
  x = graph.add(Flatten{}, {graph.add(Relu{}, {x})});
  finish(graph, linear(graph, x, layer(10, "fc")), 16);
  return graph;
}

struct Way {
  int threads = 1;
  bool share_memory = true;
  bool timing = false;
};

/// Returns the hash of the parameters after 200 steps of Adam on four batches.
std::string trained(const Graph& graph, const TapeOptions& given, const Way& way) {
  Parameters parameters(graph, 1);
  TapeOptions options = given;
  options.roots = {graph.at("loss")};
  options.threads = way.threads;
  Tape tape(graph, parameters, options, PlanHooks{.share_memory = way.share_memory});
  tape.set_timing(way.timing);
  Optimizer optimizer(parameters, Adam{}, {}, way.threads);
  for (uint64_t i = 0; i < 200; ++i) {
    const Random random(3, i % 4);
    test::fill_uniform(tape.input<float>("x"), random);
    const auto labels = tape.input<int32_t>("labels");
    for (size_t k = 0; k < labels.size(); ++k) {
      labels[k] = static_cast<int32_t>(random.below(k, 10));
    }
    tape.forward(mode::qat);
    tape.backward();
    optimizer.step(1e-3);
  }
  return parameters.sha256();
}

std::vector<TapeOptions> arithmetics() {
  std::vector<TapeOptions> all = {{},
                                  {.arithmetic = products_of_codes()},
                                  {.arithmetic = exact(Requantization::SingleRounding)}};
  if (kernels::has_bf16_products()) {
    all.push_back(
        {.arithmetic = products_of_codes(), .gradient_precision = GradientPrecision::BF16});
  }
  return all;
}

}  // namespace

TEST_CASE("long runs: threads, memory of their own and timing change no bit") {
  for (const Graph& graph : {dense(), convolutional()}) {
    for (const TapeOptions& options : arithmetics()) {
      const std::string expected = trained(graph, options, {.threads = 1});
      CHECK(trained(graph, options, {.threads = 2}) == expected);
      CHECK(trained(graph, options, {.threads = 4, .timing = true}) == expected);
      CHECK(trained(graph, options, {.threads = 2, .share_memory = false}) == expected);
    }
  }
}

TEST_CASE("long runs: neither values beside codes nor busy processors change a bit") {
  for (const Graph& graph : {dense(), convolutional()}) {
    const Requantization any = Requantization::DoubleRounding;
    const std::string lean = trained(graph, {.arithmetic = exact(any)}, {.threads = 2});
    CHECK(trained(graph, {.arithmetic = exact(any, {.keep = true})}, {.threads = 2}) == lean);
    std::vector<std::jthread> others;
    for (int i = 0; i < 4; ++i) {
      others.emplace_back([](const std::stop_token& stop) {
        while (!stop.stop_requested()) {
        }
      });
    }
    CHECK(trained(graph, {.arithmetic = exact(any)}, {.threads = 2}) == lean);
  }
}
