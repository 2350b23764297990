// Inference of 784-1024-1024-10 at batch 256: the same network in f32, with fake quantization,
// in exact arithmetic and as an integer program, compared with oneDNN's int8 products of the
// layers alone. 784-256-128-10 at batch 1. LeNet at batch 1, in a session and as exported C99
// compiled on this machine with CC and CFLAGS, by default cc -O3.
#include <benchmark/benchmark.h>
#include <fmt/ranges.h>
#include <omp.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "qtape/bench/networks.h"
#include "qtape/c99/c_library.h"
#include "qtape/kernels/onednn/onednn.h"
#include "qtape/qtape.h"

namespace {

using namespace qtape;

/// A trained network without its loss, calibrated on synthetic pixels.
struct Network {
  Graph graph;
  std::unique_ptr<Parameters> parameters;
  int64_t batch;

  explicit Network(bench::TrainedNetwork from)
      : graph(std::move(from.graph)), batch(from.batch) {
    graph.set_outputs({graph[graph.at("loss")].operands[0]});
    parameters = std::make_unique<Parameters>(graph, 1);
    Tape tape(graph, *parameters, {});
    bench::fill_pixels(tape.input<float>("x"));
    tape.forward(mode::observe);
  }
};

constexpr std::array<int64_t, 4> wide_widths = {784, 1024, 1024, 10};
constexpr std::array<int64_t, 4> small_widths = {784, 256, 128, 10};

Network& wide() {
  static Network one(bench::make_mlp(wide_widths, 256, true));
  return one;
}
Network& small() {
  static Network one(bench::make_mlp(small_widths, 1, true));
  return one;
}

void run_tape(benchmark::State& state, Mode mode, Arithmetic arithmetic, bool constant = true) {
  Tape tape(wide().graph, *wide().parameters,
            {.threads = static_cast<int>(state.range(0)),
             .constant_parameters = constant,
             .arithmetic = std::move(arithmetic)});
  bench::fill_pixels(tape.input<float>("x"));
  for (auto _ : state) tape.forward(mode);
  state.SetItemsProcessed(state.iterations() * wide().batch);
}

void replay_f32(benchmark::State& state) { run_tape(state, mode::float_eval, {}); }
void replay_fake_quantized(benchmark::State& state) { run_tape(state, mode::eval, {}); }
void replay_exact(benchmark::State& state) {
  run_tape(state, mode::eval, exact(Requantization::SingleRounding));
}
/// Runs with parameters that may change between passes, as in training.
void replay_exact_of_changing_parameters(benchmark::State& state) {
  run_tape(state, mode::eval, exact(Requantization::SingleRounding), false);
}

void run_session(benchmark::State& state, const Network& network,
                 Requantization requantization) {
  IntegerSession session(convert(network.graph, *network.parameters, requantization),
                         {.threads = static_cast<int>(state.range(0))});
  bench::fill_pixels(session.input("x"));
  for (auto _ : state) session.run();
  state.SetItemsProcessed(state.iterations() * network.batch);
  state.SetLabel(std::string(to_string_view(requantization)));
}

void replay_integers(benchmark::State& state) {
  run_session(state, wide(), static_cast<Requantization>(state.range(1)));
}
void replay_integers_of_one_image(benchmark::State& state) {
  run_session(state, small(), Requantization::SingleRounding);
}

IntegerProgram lenet_of_one_image() {
  const Network network(bench::make_trained("lenet", true));
  return convert(network.graph, *network.parameters, Requantization::SingleRounding)
      .with_batch(1);
}
void lenet_session(benchmark::State& state) {
  IntegerSession session(lenet_of_one_image(), {.threads = 1});
  bench::fill_pixels(session.input("x"));
  for (auto _ : state) session.run();
}
void lenet_c(benchmark::State& state) {
  const IntegerProgram program = lenet_of_one_image();
  const CUnit unit{"lenet", write_c_program(program, "lenet")};
  CCompiler compiler = CCompiler::of_environment();
  if (std::getenv("CFLAGS") == nullptr) compiler.flags = {"-O3"};
  const CLibrary library(std::span(&unit, 1), compiler);
  const auto run =
      reinterpret_cast<int32_t (*)(const float*, float*)>(library.function("lenet_run"));
  std::vector<float> x(784), y(10);
  bench::fill_pixels(x);
  for (auto _ : state) run(x.data(), y.data());
  state.SetLabel(fmt::format("{} {}", compiler.command, fmt::join(compiler.flags, " ")));
}

/// Measures only the accumulators of all layers: u8 x s8, with weights in oneDNN's layout.
void onednn_int8_products(benchmark::State& state) {
  using dnnl::memory;
  const int threads = omp_get_max_threads();
  omp_set_num_threads(static_cast<int>(state.range(0)));
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  dnnl::stream stream(engine);
  std::vector<std::pair<dnnl::matmul, std::unordered_map<int, memory>>> layers;
  for (size_t i = 1; i < wide_widths.size(); ++i) {
    const int64_t k = wide_widths[i - 1];
    const int64_t n = wide_widths[i];
    const auto pd = kernels::describe_matmul(
        engine, {{wide().batch, k}, memory::data_type::u8, memory::format_tag::ab},
        {{k, n}, memory::data_type::s8, memory::format_tag::any},
        {{wide().batch, n}, memory::data_type::s32, memory::format_tag::ab}, {});
    layers.push_back({dnnl::matmul(pd),
                      {{DNNL_ARG_SRC, memory(pd.src_desc(), engine)},
                       {DNNL_ARG_WEIGHTS, memory(pd.weights_desc(), engine)},
                       {DNNL_ARG_DST, memory(pd.dst_desc(), engine)}}});
    for (auto& [name, each] : layers.back().second) {
      std::memset(each.get_data_handle(), 0, each.get_desc().get_size());
    }
  }
  for (auto _ : state) {
    for (auto& [product, arguments] : layers) product.execute(stream, arguments);
    stream.wait();
  }
  state.SetItemsProcessed(state.iterations() * wide().batch);
  omp_set_num_threads(threads);
}

}  // namespace

BENCHMARK(replay_f32)->Arg(1)->Arg(2)->UseRealTime();
BENCHMARK(replay_fake_quantized)->Arg(1)->Arg(2)->UseRealTime();
BENCHMARK(replay_exact)->Arg(1)->Arg(2)->UseRealTime();
BENCHMARK(replay_exact_of_changing_parameters)->Arg(1)->Arg(2)->UseRealTime();
BENCHMARK(replay_integers)->ArgsProduct({{1, 2}, {0, 1, 2, 3}})->UseRealTime();
BENCHMARK(onednn_int8_products)->Arg(1)->Arg(2)->UseRealTime();
BENCHMARK(replay_integers_of_one_image)->Arg(1)->UseRealTime();
BENCHMARK(lenet_session)->UseRealTime();
BENCHMARK(lenet_c)->UseRealTime();
