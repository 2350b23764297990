// Replay of 784-1024-1024-10 at batch 256: the same network in f32, with fake quantization, in
// exact arithmetic and as an integer program.
#include <benchmark/benchmark.h>

#include <memory>

#include "qtape/qtape.h"

namespace {

using namespace qtape;

constexpr int64_t batch = 256;

struct Network {
  Graph graph;
  std::unique_ptr<Parameters> parameters;

  Network() {
    NodeId y = graph.add(Input{.shape = {batch, 784}}, {}, "x");
    const FakeQuantize weight{.axis = 0};
    const FakeQuantize input{.range = CodeRange::Unsigned, .scale_mode = EMA{}};
    int layer = 0;
    for (int64_t width : {1024, 1024, 10}) {
      const std::string label = "fc" + std::to_string(++layer);
      y = linear(
          graph, y,
          {.out = width, .weight_quantizer = weight, .input_quantizer = input, .label = label});
      if (width > 10) y = graph.add(Relu{}, {y});
    }
    graph.set_outputs({y});
    parameters = std::make_unique<Parameters>(graph, 1);
    Tape tape(graph, *parameters, {});
    fill(tape.input<float>("x"));
    tape.forward(mode::observe);
  }

  static void fill(std::span<float> x) {
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 37 % 256) / 255.0f;
  }
};

Network& network() {
  static Network one;
  return one;
}

void run_tape(benchmark::State& state, Mode mode, Arithmetic arithmetic, bool constant = true) {
  Tape tape(network().graph, *network().parameters,
            {.threads = static_cast<int>(state.range(0)),
             .constant_parameters = constant,
             .arithmetic = arithmetic});
  Network::fill(tape.input<float>("x"));
  for (auto _ : state) tape.forward(mode);
  state.SetItemsProcessed(state.iterations() * batch);
}

void replay_f32(benchmark::State& state) { run_tape(state, mode::float_eval, {}); }
void replay_fake_quantized(benchmark::State& state) { run_tape(state, mode::eval, {}); }
void replay_exact(benchmark::State& state) {
  run_tape(state, mode::eval, exact(Requantization::SingleRounding));
}
/// The same with parameters that may change between passes, as in training.
void replay_exact_of_changing_parameters(benchmark::State& state) {
  run_tape(state, mode::eval, exact(Requantization::SingleRounding), false);
}

void replay_integers(benchmark::State& state) {
  const auto requantization = static_cast<Requantization>(state.range(1));
  IntegerSession session(convert(network().graph, *network().parameters, requantization),
                         {.threads = static_cast<int>(state.range(0))});
  Network::fill(session.input("x"));
  for (auto _ : state) session.run();
  state.SetItemsProcessed(state.iterations() * batch);
  state.SetLabel(std::string(to_string_view(requantization)));
}

}  // namespace

BENCHMARK(replay_f32)->Arg(1)->Arg(2)->UseRealTime();
BENCHMARK(replay_fake_quantized)->Arg(1)->Arg(2)->UseRealTime();
BENCHMARK(replay_exact)->Arg(1)->Arg(2)->UseRealTime();
BENCHMARK(replay_exact_of_changing_parameters)->Arg(1)->Arg(2)->UseRealTime();
BENCHMARK(replay_integers)->ArgsProduct({{1, 2}, {0, 1, 2, 3}})->UseRealTime();
