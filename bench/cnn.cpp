// Convolutional networks: training steps, and inference in integers and in floats.
#include <benchmark/benchmark.h>

#include <map>
#include <memory>

#include "qtape/bench/networks.h"
#include "qtape/data/generated/digits.h"
#include "qtape/deploy/convert.h"
#include "qtape/engine/tape.h"
#include "qtape/examples/train_cnn/network.h"
#include "qtape/integer/program/session.h"
#include "qtape/integer/training/exact.h"
#include "qtape/optim/optimizer.h"

using namespace qtape;

namespace {

constexpr int64_t batch = 64;

void train_small(benchmark::State& state, bool quantized, Arithmetic arithmetic = {}) {
  const int threads = static_cast<int>(state.range(0));
  const Graph graph = bench::make_small_cnn(batch, quantized).graph;
  Parameters parameters(graph, 1);
  Tape tape(graph, parameters,
            {.roots = {graph.at("loss")}, .threads = threads, .arithmetic = arithmetic});
  Optimizer optimizer(parameters, Adam{}, {}, threads);
  bench::fill_batch(tape);
  for (auto _ : state) {
    tape.forward(mode::qat);
    tape.backward();
    optimizer.step(1e-3);
  }
  state.SetItemsProcessed(state.iterations() * batch);
}

void train_float(benchmark::State& state) { train_small(state, false); }
void train_quantized(benchmark::State& state) { train_small(state, true); }
void train_exact(benchmark::State& state) {
  train_small(state, true, exact(Requantization::SingleRounding));
}

/// A network of train_cnn whose observers have seen one batch.
struct Settled {
  explicit Settled(examples::CnnModel model) {
    const data::Dataset digits = data::generate_digits(1, batch, 0).train;
    graph = examples::make_network({.model = model}, digits);
    graph.set_outputs({graph.outputs()[0]});
    parameters = std::make_unique<Parameters>(graph, 1);
    Tape tape(graph, *parameters, {});
    bench::fill_pixels(tape.input<float>("x"));
    tape.forward(mode::observe);
  }

  Graph graph;
  std::unique_ptr<Parameters> parameters;
};

Settled& settled(int64_t model) {
  static std::map<int64_t, Settled> all;
  return all.try_emplace(model, static_cast<examples::CnnModel>(model)).first->second;
}

/// Arguments: network, batch, threads.
void replay(benchmark::State& state, Mode mode, Arithmetic arithmetic) {
  Settled& network = settled(state.range(0));
  Tape tape(network.graph.with_batch(state.range(1)), *network.parameters,
            {.threads = static_cast<int>(state.range(2)),
             .constant_parameters = true,
             .arithmetic = arithmetic});
  bench::fill_pixels(tape.input<float>("x"));
  for (auto _ : state) tape.forward(mode);
  state.SetItemsProcessed(state.iterations() * state.range(1));
  state.SetLabel(std::string(to_string_view(static_cast<examples::CnnModel>(state.range(0)))));
}

void replay_f32(benchmark::State& state) { replay(state, mode::float_eval, {}); }
void replay_exact(benchmark::State& state) {
  replay(state, mode::eval, exact(Requantization::SingleRounding));
}
void replay_integers(benchmark::State& state, Requantization requantization) {
  Settled& network = settled(state.range(0));
  IntegerSession session(
      convert(network.graph.with_batch(state.range(1)), *network.parameters, requantization),
      {.threads = static_cast<int>(state.range(2))});
  bench::fill_pixels(session.input("x"));
  for (auto _ : state) session.run();
  state.SetItemsProcessed(state.iterations() * state.range(1));
  state.SetLabel(std::string(to_string_view(static_cast<examples::CnnModel>(state.range(0)))));
}

void networks(benchmark::internal::Benchmark* each) {
  each->ArgsProduct({{0, 1, 2, 3}, {1, batch}, {1, 2}})->UseRealTime();
}

}  // namespace

BENCHMARK(train_float)->Arg(1)->Arg(2)->UseRealTime();
BENCHMARK(train_quantized)->Arg(1)->Arg(2)->UseRealTime();
BENCHMARK(train_exact)->Arg(1)->Arg(2)->UseRealTime();
BENCHMARK(replay_f32)->Apply(networks);
BENCHMARK(replay_exact)->Apply(networks);
BENCHMARK_CAPTURE(replay_integers, float_multiply, Requantization::FloatMultiply)
    ->Apply(networks);
BENCHMARK_CAPTURE(replay_integers, single_rounding, Requantization::SingleRounding)
    ->Apply(networks);
