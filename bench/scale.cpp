// Large graphs and models: building, planning and binding 10,000 nodes, loading 10^6 parameters
// and 80,000 nodes, rejecting 12 MB, converting and linting 1,200 layers.
#include <benchmark/benchmark.h>

#include "qtape/deploy/lint.h"
#include "qtape/engine/plan.h"
#include "qtape/engine/quantizers.h"
#include "qtape/engine/serialize.h"
#include "qtape/engine/tape.h"
#include "qtape/model/layers.h"

namespace {

using namespace qtape;

Graph chain(int64_t count) {
  Graph graph;
  NodeId y = graph.add(Input{.shape = {1, 16}}, {}, "x");
  const NodeId w = graph.add(Parameter{.shape = {1, 16}}, {}, "w");
  y = graph.add(Add{}, {y, w});
  while (graph.size() < count - 1) y = graph.add(Tanh{}, {y});
  graph.add(Mean{}, {y}, "loss");
  graph.set_outputs({graph.at("loss")});
  return graph;
}

void build_chain(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(chain(10000));
}

void plan_chain(benchmark::State& state) {
  const Graph graph = chain(10000);
  const NodeId loss = graph.at("loss");
  for (auto _ : state) {
    benchmark::DoNotOptimize(plan(graph, {.outputs = {loss}, .roots = {loss}}));
  }
}

void build_plan_bind_chain(benchmark::State& state) {
  for (auto _ : state) {
    const Graph graph = chain(10000);
    Parameters parameters(graph, 1);
    const Tape tape(graph, parameters, {.roots = {graph.at("loss")}});
    benchmark::DoNotOptimize(tape.step());
  }
}

void load_and_bind_million(benchmark::State& state) {
  Graph graph;
  const NodeId x = graph.add(Input{.shape = {64, 1000}}, {}, "x");
  graph.set_outputs(
      {linear(graph, x, {.out = 1000, .weight_quantizer = FakeQuantize{.axis = 0}})});
  const std::string text = to_json(graph, Parameters(graph, 1));
  for (auto _ : state) {
    SavedModel model = model_from_json(text);
    const Tape tape(model.graph, model.parameters, {});
    benchmark::DoNotOptimize(tape.step());
  }
}

/// 1,200 layers of 8 units that can be converted.
struct Layers {
  Graph graph;
  Parameters parameters;

  Layers() : graph(make()), parameters(graph, 1) {
    for (NodeId id : quantizers(graph)) {
      if (!qparams(graph, parameters, id).empty()) set_qparams(graph, parameters, id, 0.013);
    }
  }
  static Graph make() {
    Graph graph;
    NodeId x = graph.add(Input{.shape = {1, 8}}, {}, "x");
    for (int i = 0; i < 1200; ++i) {
      x = linear(graph, x,
                 {.out = 8,
                  .weight_quantizer = FakeQuantize{.axis = 0},
                  .input_quantizer = FakeQuantize{.scale_mode = Fixed{}},
                  .label = "fc" + std::to_string(i)});
    }
    graph.set_outputs({x});
    return graph;
  }
};

void convert_layers(benchmark::State& state) {
  Layers layers;
  for (auto _ : state) {
    benchmark::DoNotOptimize(
        convert(layers.graph, layers.parameters, Requantization::FloatMultiply));
  }
}

void lint_layers(benchmark::State& state) {
  Layers layers;
  for (auto _ : state) benchmark::DoNotOptimize(lint(layers.graph, layers.parameters));
}

void load_nodes(benchmark::State& state) {
  const Graph graph = chain(80000);
  const std::string text = to_json(graph, Parameters(graph, 1));
  for (auto _ : state) benchmark::DoNotOptimize(model_from_json(text));
}

/// 12 MB of objects that are not nodes.
void refuse_hostile_file(benchmark::State& state) {
  std::string text = R"({"nodes":[{"a":{}})";
  while (text.size() < 12000000) text += R"(,{"a":{}})";
  text += "]}";
  for (auto _ : state) {
    try {
      benchmark::DoNotOptimize(model_from_json(text));
    } catch (const FormatError& error) {
      benchmark::DoNotOptimize(error.what());
    }
  }
}

BENCHMARK(build_chain)->Unit(benchmark::kMillisecond);
BENCHMARK(plan_chain)->Unit(benchmark::kMillisecond);
BENCHMARK(build_plan_bind_chain)->Unit(benchmark::kMillisecond);
BENCHMARK(load_and_bind_million)->Unit(benchmark::kMillisecond);
BENCHMARK(load_nodes)->Unit(benchmark::kMillisecond);
BENCHMARK(refuse_hostile_file)->Unit(benchmark::kMillisecond);
BENCHMARK(convert_layers)->Unit(benchmark::kMillisecond);
BENCHMARK(lint_layers)->Unit(benchmark::kMillisecond);

}  // namespace
