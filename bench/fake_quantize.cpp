// FakeQuantize on 16 M floats beside a memory copy of the same size by the same threads. Bytes
// per second count each element once read and once written, so the rows compare directly.
#include "qtape/ops/fake_quantize.h"

#include <benchmark/benchmark.h>

#include <cstring>
#include <vector>

#include "qtape/ops/core/aligned.h"
#include "qtape/ops/core/random.h"
#include "qtape/ops/core/threads.h"

namespace {

using namespace qtape;

constexpr int64_t rows = 4096;
constexpr int64_t columns = 4096;
constexpr int64_t elements = rows * columns;

/// Operands and buffers of one FakeQuantize node.
struct Bench {
  FakeQuantize op;
  std::vector<TensorType> inputs;
  AlignedBuffer x{4 * elements}, y{4 * elements}, state{4 * rows}, saved, scratch, record;
  std::vector<std::byte*> operands;
  std::vector<Gradient> gradients;
  NodeStatus status;

  explicit Bench(const FakeQuantize& fake) : op(fake) {
    const TensorType type{DType::F32, {rows, columns}};
    inputs = {type};
    operands = {x.data()};
    gradients = {{y.data(), false}};
    if (op.slots().size() > 1) {
      inputs.push_back({DType::F32, Shape{op.channels(type.shape)}});
      operands.push_back(state.data());
      gradients.push_back({});
    }
    const Footprint f = op.footprint(inputs);
    saved = AlignedBuffer(f.saved);
    scratch = AlignedBuffer(f.scratch);
    record = AlignedBuffer(f.record);
    const Random random(1, 1);
    auto* values = reinterpret_cast<float*>(x.data());
    for (int64_t i = 0; i < elements; ++i) {
      values[i] = static_cast<float>(random.uniform(static_cast<uint64_t>(i)) - 0.5);
    }
    auto* scales = reinterpret_cast<float*>(state.data());
    for (int64_t i = 0; i < rows; ++i) scales[i] = 0.003f;
  }

  Binding binding(int threads) {
    return {.inputs = inputs,
            .output = inputs[0],
            .operands = operands,
            .result = y.data(),
            .dy = x.data(),
            .gradients = gradients,
            .saved = saved.data(),
            .scratch = scratch.data(),
            .record = record.data(),
            .status = &status,
            .threads = threads};
  }
};

void report(benchmark::State& state, int64_t moves) {
  state.SetBytesProcessed(state.iterations() * 4 * moves * elements);
  state.counters["elements"] = benchmark::Counter(
      static_cast<double>(state.iterations() * elements), benchmark::Counter::kIsRate);
}

void memory_copy(benchmark::State& state) {
  const int threads = default_threads();
  AlignedBuffer from(4 * elements);
  AlignedBuffer to(4 * elements);
  for (auto _ : state) {
    parallel_for(threads, 4 * elements, 4096, 4096, [&](int64_t begin, int64_t end) {
      std::memcpy(to.data() + begin, from.data() + begin, static_cast<size_t>(end - begin));
    });
    benchmark::ClobberMemory();
  }
  report(state, 2);
}

void forward(benchmark::State& state, const FakeQuantize& op, Mode mode) {
  Bench bench(op);
  const Kernel kernel = op.forward(bench.binding(default_threads()));
  for (auto _ : state) kernel({.mode = mode});
  const bool measures = !std::holds_alternative<Fixed>(op.scale_mode) && mode == mode::qat;
  report(state, measures && !op.axis ? 3 : 2);
}

void backward(benchmark::State& state, const FakeQuantize& op) {
  Bench bench(op);
  op.forward(bench.binding(default_threads()))({.mode = mode::qat});
  const Kernel kernel = op.backward(bench.binding(default_threads()));
  for (auto _ : state) kernel({.mode = mode::qat});
  report(state, 2);
}

const FakeQuantize tensor_batch{.ste = Ste::ClippedIdentity};
const FakeQuantize tensor_ema{.ste = Ste::ClippedIdentity, .scale_mode = EMA{}};
const FakeQuantize tensor_fixed{.ste = Ste::ClippedIdentity, .scale_mode = Fixed{}};
const FakeQuantize channel_batch{.axis = 0, .ste = Ste::ClippedIdentity};
const FakeQuantize channel_ema{.axis = 0, .ste = Ste::ClippedIdentity, .scale_mode = EMA{}};
const FakeQuantize last_axis_fixed{
    .axis = 1, .ste = Ste::ClippedIdentity, .scale_mode = Fixed{}};

BENCHMARK(memory_copy)->UseRealTime();
BENCHMARK_CAPTURE(forward, tensor_fixed, tensor_fixed, mode::qat)->UseRealTime();
BENCHMARK_CAPTURE(forward, tensor_ema_eval, tensor_ema, mode::eval)->UseRealTime();
BENCHMARK_CAPTURE(forward, tensor_ema, tensor_ema, mode::qat)->UseRealTime();
BENCHMARK_CAPTURE(forward, tensor_per_batch, tensor_batch, mode::qat)->UseRealTime();
BENCHMARK_CAPTURE(forward, channel_per_batch, channel_batch, mode::qat)->UseRealTime();
BENCHMARK_CAPTURE(forward, channel_ema, channel_ema, mode::qat)->UseRealTime();
BENCHMARK_CAPTURE(forward, last_axis_fixed, last_axis_fixed, mode::qat)->UseRealTime();
BENCHMARK_CAPTURE(backward, tensor_fixed, tensor_fixed)->UseRealTime();
BENCHMARK_CAPTURE(backward, channel_ema, channel_ema)->UseRealTime();

}  // namespace
