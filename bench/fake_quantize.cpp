// FakeQuantize and its learned forms on 16 M floats, compared with a memory copy of the same
// size by the same threads. Bytes per second count each element as read once and written once,
// so that rows can be compared directly.
#include "qtape/ops/fake_quantize.h"

#include <benchmark/benchmark.h>

#include <cstring>
#include <vector>

#include "qtape/core/aligned.h"
#include "qtape/core/random.h"
#include "qtape/kernels/simd/threads.h"
#include "qtape/ops/fake_quantize_lsq.h"
#include "qtape/ops/fake_quantize_pact.h"

namespace {

using namespace qtape;
using namespace qtape::kernels;

constexpr int64_t rows = 4096;
constexpr int64_t columns = 4096;
constexpr int64_t elements = rows * columns;

/// Operands and buffers of one quantizer node.
template <class X>
struct Bench {
  X op;
  std::vector<TensorType> inputs;
  AlignedBuffer x{4 * elements}, y{4 * elements}, dy{4 * elements}, state{elements},
      zero_points{elements}, dstate{elements}, saved, scratch, record;
  std::vector<std::byte*> operands;
  std::vector<Gradient> gradients;
  NodeStatus status;

  explicit Bench(const X& quantizer) : op(quantizer) {
    const TensorType type{DType::F32, {rows, columns}};
    inputs = {type};
    operands = {x.data()};
    gradients = {{y.data(), false}};
    for (const QuantizerOperand& operand : op.operands()) {
      inputs.push_back(operand_type(operand, granularity_of(op), type));
      operands.push_back(operands.size() == 1 ? state.data() : zero_points.data());
      gradients.push_back({operand.trained ? dstate.data() : nullptr, false});
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
    std::memcpy(dy.data(), x.data(), static_cast<size_t>(4 * elements));
    auto* scales = reinterpret_cast<float*>(state.data());
    for (int64_t i = 0; i < elements / 4; ++i) scales[i] = 0.003f;
    std::memset(zero_points.data(), 0, static_cast<size_t>(elements));
  }

  Binding binding(int threads) {
    return {.inputs = inputs,
            .output = inputs[0],
            .operands = operands,
            .result = y.data(),
            .dy = dy.data(),
            .gradients = gradients,
            .saved = saved.data(),
            .scratch = scratch.data(),
            .record = record.data(),
            .status = &status,
            .threads = threads};
  }
};

void report(benchmark::State& state) {
  state.SetBytesProcessed(state.iterations() * 4 * 2 * elements);
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
  report(state);
}

template <class X>
void forward(benchmark::State& state, const X& op, Mode mode) {
  Bench bench(op);
  const Kernel kernel = op.forward(bench.binding(default_threads()));
  for (auto _ : state) kernel({.mode = mode});
  report(state);
}

template <class X>
void backward(benchmark::State& state, const X& op) {
  Bench bench(op);
  op.forward(bench.binding(default_threads()))({.mode = mode::qat});
  const Kernel kernel = op.backward(bench.binding(default_threads()));
  for (auto _ : state) kernel({.mode = mode::qat});
  report(state);
}

const FakeQuantize tensor_batch{.ste = Ste::ClippedIdentity};
const FakeQuantize tensor_ema{.ste = Ste::ClippedIdentity, .scale_mode = EMA{}};
const FakeQuantize tensor_fixed{.ste = Ste::ClippedIdentity, .scale_mode = Fixed{}};
const FakeQuantize channel_batch{.axis = 0, .ste = Ste::ClippedIdentity};
const FakeQuantize channel_ema{.axis = 0, .ste = Ste::ClippedIdentity, .scale_mode = EMA{}};
const FakeQuantize last_axis_fixed{
    .axis = 1, .ste = Ste::ClippedIdentity, .scale_mode = Fixed{}};
const FakeQuantize group_batch{.axis = 1, .group_size = 128, .ste = Ste::ClippedIdentity};
const FakeQuantize group_ema =
    group_batch.with(&FakeQuantize::group_size, 64).with(&FakeQuantize::scale_mode, EMA{});
const FakeQuantize small_group_ema = group_ema.with(&FakeQuantize::group_size, 32);
const FakeQuantize affine_batch = tensor_batch.with(&FakeQuantize::scheme, Scheme::Affine);
const FakeQuantize affine_ema =
    affine_batch.with(&FakeQuantize::scale_mode, EMA{.track = Track::Range});
const FakeQuantize affine_fixed = affine_batch.with(&FakeQuantize::scale_mode, Fixed{});
const FakeQuantize affine_channel_ema = affine_ema.with(&FakeQuantize::axis, 0);
const FakeQuantize affine_group_ema =
    affine_ema.with(&FakeQuantize::axis, 1).with(&FakeQuantize::group_size, 128);

BENCHMARK(memory_copy)->UseRealTime();
BENCHMARK_CAPTURE(forward, tensor_fixed, tensor_fixed, mode::qat)->UseRealTime();
BENCHMARK_CAPTURE(forward, tensor_ema_eval, tensor_ema, mode::eval)->UseRealTime();
BENCHMARK_CAPTURE(forward, tensor_ema, tensor_ema, mode::qat)->UseRealTime();
BENCHMARK_CAPTURE(forward, tensor_per_batch, tensor_batch, mode::qat)->UseRealTime();
BENCHMARK_CAPTURE(forward, channel_per_batch, channel_batch, mode::qat)->UseRealTime();
BENCHMARK_CAPTURE(forward, channel_ema, channel_ema, mode::qat)->UseRealTime();
BENCHMARK_CAPTURE(forward, last_axis_fixed, last_axis_fixed, mode::qat)->UseRealTime();
BENCHMARK_CAPTURE(forward, group_128_per_batch, group_batch, mode::qat)->UseRealTime();
BENCHMARK_CAPTURE(forward, group_64_ema, group_ema, mode::qat)->UseRealTime();
BENCHMARK_CAPTURE(forward, group_32_ema, small_group_ema, mode::qat)->UseRealTime();
BENCHMARK_CAPTURE(forward, affine_fixed, affine_fixed, mode::qat)->UseRealTime();
BENCHMARK_CAPTURE(forward, affine_ema, affine_ema, mode::qat)->UseRealTime();
BENCHMARK_CAPTURE(forward, affine_channel_ema, affine_channel_ema, mode::qat)->UseRealTime();
BENCHMARK_CAPTURE(forward, affine_group_128_ema, affine_group_ema, mode::qat)->UseRealTime();
BENCHMARK_CAPTURE(backward, tensor_fixed, tensor_fixed)->UseRealTime();
BENCHMARK_CAPTURE(backward, channel_ema, channel_ema)->UseRealTime();
BENCHMARK_CAPTURE(backward, group_64_ema, group_ema)->UseRealTime();
BENCHMARK_CAPTURE(backward, affine_ema, affine_ema)->UseRealTime();
BENCHMARK_CAPTURE(backward, affine_group_128_ema, affine_group_ema)->UseRealTime();
const FakeQuantizeLSQ lsq_tensor{};
const FakeQuantizeLSQ lsq_channel{.axis = 0};
const FakeQuantizePACT pact_tensor{};
BENCHMARK_CAPTURE(forward, lsq_tensor, lsq_tensor, mode::qat)->UseRealTime();
BENCHMARK_CAPTURE(backward, lsq_tensor, lsq_tensor)->UseRealTime();
BENCHMARK_CAPTURE(backward, lsq_channel, lsq_channel)->UseRealTime();
BENCHMARK_CAPTURE(backward, pact_tensor, pact_tensor)->UseRealTime();

}  // namespace
