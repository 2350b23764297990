#include "qtape/integer/ops/pad.h"

#include <algorithm>

#include "qtape/integer/core/integer_binding.h"
#include "qtape/kernels/quantize/quantize.h"
#include "qtape/kernels/simd/threads.h"
#include "qtape/ops/families/border.h"

namespace qtape::integer {

IntegerValue Pad::infer(IntegerInputs inputs) const {
  check_operands(inputs, 1);
  IntegerValue y = inputs[0];
  check_codes(y, "x");
  dispatch_codes(y.type.dtype, [&]<class Code>() {
    using Limits = std::numeric_limits<Code>;
    check(code >= Limits::min() && code <= Limits::max(), "code must be within {}..{}, got {}",
          Limits::min(), Limits::max(), code);
  });
  y.type.shape = padded_shape(y.type.shape, begin, end);
  y.low = std::min<int64_t>(y.low, code);
  y.high = std::max<int64_t>(y.high, code);
  return y;
}

void Pad::update(const IntegerBinding& b, IntegerValue& y) const {
  y.scales[0] = b.in(0).scales[0];
  y.zero_point = b.in(0).zero_point;
  y.low = std::min<int64_t>(b.in(0).low, code);
  y.high = std::max<int64_t>(b.in(0).high, code);
}

IntegerKernel Pad::optimized(const IntegerBinding& b) const {
  return dispatch_codes(b.out().type.dtype, [&]<class Code>() -> IntegerKernel {
    if (b.out().type.elements() == 0) return {};
    const Border border(b.in(0).type.shape, begin, b.out().type.shape);
    const int64_t grain = std::max<int64_t>(1, copy_grain / border.y_width());
    return {.run = [this, border, grain, x = b.operand<Code>(0), y = b.y<Code>(),
                    threads = b.threads] {
      parallel_for(threads, border.y_rows(), 1, grain, [&](int64_t first, int64_t last) {
        border.fill(x, static_cast<Code>(code), y, first, last);
      });
    }};
  });
}

int32_t border_code(double value, const CodeGrid& grid) {
  const Grid codes{.limits = {grid.low, grid.high}};
  return static_cast<int32_t>(
      code_of(static_cast<float>(value),
              {static_cast<float>(grid.scale), static_cast<float>(grid.zero_point)}, codes));
}

}  // namespace qtape::integer
