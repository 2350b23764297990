#include "qtape/integer/ops/mean_pool.h"

#include <algorithm>
#include <array>

#include "qtape/integer/core/integer_binding.h"
#include "qtape/integer/ops/structure.h"
#include "qtape/kernels/simd/vectorize.h"
#include "qtape/kernels/simd/versions.h"
#include "qtape/ops/families/pool_kernels.h"

namespace qtape::integer {
namespace {

/// Channels that are summed at once.
constexpr int64_t mean_block = 128;

/// Type of sums of codes: 2^23 8-bit codes fit s32.
template <class Code>
using MeanSum = std::conditional_t<sizeof(Code) == 1, int32_t, int64_t>;

/// Returns the loop that computes rows [begin, end) of y.
template <class Code>
auto mean_codes_loop() {
  return simd::best<const Pool*, const Code*, Code*, int64_t, int64_t>(
      [](const Pool* pool, const Code* x, Code* y, int64_t begin, int64_t end) {
        const Window& w = pool->window;
        const int64_t n = pool->channels;
        std::array<MeanSum<Code>, mean_block> sums;
        for (int64_t r = begin; r < end; ++r) {
          const Range rows = real_elements(w.h, r % w.h.out);
          const int64_t top = r / w.h.out * w.h.in + w.h.start(r % w.h.out);
          for (int64_t j = 0; j < w.w.out; ++j) {
            const Range columns = real_elements(w.w, j);
            const auto count = static_cast<MeanSum<Code>>(rows.size() * columns.size());
            Code* to = y + (r * w.w.out + j) * n;
            for (int64_t c0 = 0; c0 < n; c0 += mean_block) {
              const int64_t width = std::min(mean_block, n - c0);
              sums.fill(0);
              for (int64_t p = rows.begin; p < rows.end; ++p) {
                for (int64_t q = columns.begin; q < columns.end; ++q) {
                  const Code* from = x + ((top + p) * w.w.in + w.w.start(j) + q) * n + c0;
                  QTAPE_INDEPENDENT
                  for (int64_t c = 0; c < width; ++c) sums[static_cast<size_t>(c)] += from[c];
                }
              }
              for (int64_t c = 0; c < width; ++c) {
                const auto sum = sums[static_cast<size_t>(c)];
                const auto half = count / 2;
                to[c0 + c] = static_cast<Code>((sum > 0 ? sum + half : sum - half) / count);
              }
            }
          }
        }
      });
}

}  // namespace

IntegerValue MeanPool::infer(IntegerInputs inputs) const {
  check_operands(inputs, 1);
  check_codes(inputs[0], "x");
  const Pool windows = pool(inputs[0].type.shape);
  check(windows.window.kernel() <= max_terms,
        "windows may have at most 2^23 elements, windows of {} have {}", to_string(kernel),
        windows.window.kernel());
  IntegerValue y = inputs[0];
  y.type.shape = windows.result;
  return y;
}

void MeanPool::update(const IntegerBinding& b, IntegerValue& y) const {
  update_structure(b, y);
}

IntegerKernel MeanPool::optimized(const IntegerBinding& b) const {
  return dispatch_codes(b.in(0).type.dtype, [&]<class Code>() -> IntegerKernel {
    if (b.out().type.elements() == 0) return {};
    const Pool windows = pool(b.in(0).type.shape);
    const int64_t grain =
        row_grain(windows.window.w.out * windows.channels, windows.window.kernel());
    return {.run = [windows, grain, loop = mean_codes_loop<Code>(), x = b.operand<Code>(0),
                    y = b.y<Code>(), threads = b.threads] {
      parallel_for(threads, windows.output_rows(), 1, grain,
                   [&](int64_t begin, int64_t end) { loop(&windows, x, y, begin, end); });
    }};
  });
}

}  // namespace qtape::integer
