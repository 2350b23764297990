#include "qtape/ops/families/bf16.h"

#include <algorithm>

#include "qtape/core/half.h"
#include "qtape/kernels/onednn/gemm.h"
#include "qtape/kernels/simd/threads.h"
#include "qtape/kernels/simd/vectorize.h"
#include "qtape/kernels/simd/versions.h"
#include "qtape/ops/families/decode.h"

namespace qtape {

using namespace kernels;
namespace {

/// Elements that are decoded to f32 on the stack at a time.
constexpr int64_t round_block = 1024;

using RoundLoop = void (*)(const float*, BHalf*, int64_t);
RoundLoop round_loop() {
  return simd::best<const float*, BHalf*, int64_t>([](const float* x, BHalf* y, int64_t n) {
    QTAPE_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) y[i] = to_bhalf(x[i]);
  });
}

}  // namespace

bool machine_has_bf16() { return has_bf16_products(); }

Kernel bind_rounding(const float* from, int64_t elements, BHalf* to, int threads) {
  return [from, elements, to, threads, loop = round_loop()](const Step&) {
    parallel_for(
        threads, elements, round_block, pointwise_grain,
        [&](int64_t begin, int64_t end) { loop(from + begin, to + begin, end - begin); });
  };
}

Kernel bind_rounding(const Binding& b, int i, BHalf* to) {
  const int64_t elements = b.inputs[static_cast<size_t>(i)].elements();
  const EncodedOperand* codes = b.encoded_operand(i);
  if (codes == nullptr) return bind_rounding(b.operand<float>(i), elements, to, b.threads);
  return [codes = *codes, elements, to, threads = b.threads, loop = round_loop()](const Step&) {
    parallel_for(threads, elements, round_block, pointwise_grain,
                 [&](int64_t begin, int64_t end) {
                   alignas(64) float values[round_block];
                   for (int64_t at = begin; at < end; at += round_block) {
                     const int64_t count = std::min(round_block, end - at);
                     decode(codes, at, at + count, values);
                     loop(values, to + at, count);
                   }
                 });
  };
}

}  // namespace qtape
