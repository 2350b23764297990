#include "qtape/integer/ops/avg_pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "qtape/integer/core/integer_binding.h"
#include "qtape/kernels/simd/vectorize.h"
#include "qtape/kernels/simd/versions.h"
#include "qtape/ops/families/pool_kernels.h"

namespace qtape::integer {
namespace {

/// x - zp at (row, column, c) of an image, and 0 in the padding.
template <class Acc, class Code>
Acc element(const Pool& pool, const Code* image, int64_t row, int64_t column, int64_t c,
            int32_t zero) {
  const int64_t height = pool.window.h.in;
  const int64_t width = pool.window.w.in;
  if (row < 0 || row >= height || column < 0 || column >= width) return 0;
  return static_cast<Acc>(image[(row * width + column) * pool.channels + c]) - Acc{zero};
}

/// Arguments of the loop over rows of y.
struct Sums {
  AvgPool op;
  Pool pool;
  int64_t common = 1;
};

/// Returns the loop that computes rows [begin, end) of y.
template <class Code, class Acc>
auto sums_loop() {
  return simd::best<const Sums*, const Code*, Acc*, int32_t, int64_t, int64_t>(
      [](const Sums* sums, const Code* x, Acc* y, int32_t zero, int64_t begin, int64_t end) {
        const Window& w = sums->pool.window;
        const int64_t n = sums->pool.channels;
        for (int64_t r = begin; r < end; ++r) {
          const int64_t i = r % w.h.out;
          const Range rows = real_elements(w.h, i);
          const int64_t top = r / w.h.out * w.h.in + w.h.start(i);
          for (int64_t j = 0; j < w.w.out; ++j) {
            const Range columns = real_elements(w.w, j);
            Acc* to = y + (r * w.w.out + j) * n;
            std::fill_n(to, n, Acc(0));
            for (int64_t p = rows.begin; p < rows.end; ++p) {
              for (int64_t q = columns.begin; q < columns.end; ++q) {
                const Code* from = x + ((top + p) * w.w.in + w.w.start(j) + q) * n;
                QTAPE_INDEPENDENT
                for (int64_t c = 0; c < n; ++c) to[c] += static_cast<Acc>(from[c]) - Acc{zero};
              }
            }
            const Acc times =
                static_cast<Acc>(sums->common / sums->op.divisor(sums->pool, i, j));
            QTAPE_INDEPENDENT
            for (int64_t c = 0; c < n; ++c) to[c] *= times;
          }
        }
      });
}

}  // namespace

IntegerValue AvgPool::infer(IntegerInputs inputs) const {
  check_operands(inputs, 1);
  const IntegerValue& x = inputs[0];
  check_codes(x, "x");
  const Pool windows = pool(x.type.shape);
  const auto common = common_divisor(windows, max_terms);
  check(common.has_value(), "accumulators may have at most 2^23 terms, windows of {} need more",
        to_string(kernel));
  const int64_t low = *common * std::min<int64_t>(x.low - x.zero_point, 0);
  const int64_t high = *common * std::max<int64_t>(x.high - x.zero_point, 0);
  const bool narrow = std::max(-low, high) <= Certificate::s32_limit;
  return {{narrow ? DType::S32 : DType::S64, windows.result},
          {x.scales[0] / static_cast<double>(*common)},
          0,
          low,
          high};
}

int64_t AvgPool::common_multiple(const Shape& x) const {
  return common_divisor(pool(x), max_terms).value();
}

void AvgPool::update(const IntegerBinding& b, IntegerValue& y) const {
  const IntegerValue& x = b.in(0);
  y.scales[0] = x.scales[0] / static_cast<double>(common_multiple(x.type.shape));
}

IntegerKernel AvgPool::optimized(const IntegerBinding& b) const {
  return dispatch_codes(b.in(0).type.dtype, [&]<class Code>() {
    return dispatch_accumulators(b.out().type.dtype, [&]<class Acc>() -> IntegerKernel {
      if (b.out().type.elements() == 0) return {};
      const Shape& shape = b.in(0).type.shape;
      const Sums sums{*this, pool(shape), common_multiple(shape)};
      const int64_t grain =
          row_grain(sums.pool.window.w.out * sums.pool.channels, sums.pool.window.kernel());
      return {.run = [sums, grain, loop = sums_loop<Code, Acc>(), x = b.operand<Code>(0),
                      y = b.y<Acc>(), value = b.inputs[0], threads = b.threads] {
        parallel_for(threads, sums.pool.output_rows(), 1, grain,
                     [&](int64_t begin, int64_t end) {
                       loop(&sums, x, y, value->zero_point, begin, end);
                     });
      }};
    });
  });
}

}  // namespace qtape::integer
