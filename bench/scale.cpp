// Large graphs and models: building, planning and binding 10,000 nodes, loading 10^6
// parameters.
#include <benchmark/benchmark.h>

#include "qtape/engine/layers.h"
#include "qtape/engine/serialize.h"
#include "qtape/engine/tape.h"

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
    Model model = model_from_json(text);
    const Tape tape(model.graph, model.parameters, {});
    benchmark::DoNotOptimize(tape.step());
  }
}

BENCHMARK(build_chain)->Unit(benchmark::kMillisecond);
BENCHMARK(plan_chain)->Unit(benchmark::kMillisecond);
BENCHMARK(build_plan_bind_chain)->Unit(benchmark::kMillisecond);
BENCHMARK(load_and_bind_million)->Unit(benchmark::kMillisecond);

}  // namespace
