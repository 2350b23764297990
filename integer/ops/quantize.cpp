#include "qtape/integer/ops/quantize.h"

#include <fmt/format.h>

#include <atomic>

#include "qtape/integer/core/integer_binding.h"
#include "qtape/kernels/quantize/quantize.h"
#include "qtape/kernels/simd/threads.h"
#include "qtape/kernels/simd/vectorize.h"
#include "qtape/kernels/simd/versions.h"

namespace qtape::integer {

using namespace kernels;
namespace {

struct Numbers {
  Grid grid;
  QParams<float> q;
};

/// Returns the grid and qparams for which code_of computes `op`.
Numbers numbers_of(const Quantize& op) {
  return {{.limits = {op.grid.low, op.grid.high},
           .scheme = Scheme::Affine,
           .rounding = op.rounding,
           .division = op.division,
           .zero_point = op.zero_point},
          {static_cast<float>(op.grid.scale), static_cast<float>(op.grid.zero_point)}};
}

/// Writes the codes of x to y; sets the flag to true if no element was NaN. `Code` encodes NaN
/// as the low end.
template <class Code>
using Loop = void (*)(const float*, Code*, int64_t, const Numbers*, bool*);

template <class Code, Rounding rounding, Division division>
Loop<Code> loop() {
  return simd::best<const float*, Code*, int64_t, const Numbers*, bool*>(
      [](const float* x, Code* y, int64_t n, const Numbers* numbers, bool* clean) {
        Grid grid = numbers->grid;
        grid.rounding = rounding;
        grid.division = division;
        const QParams<float> q = numbers->q;
        const float low = static_cast<float>(grid.limits.q_min);
        int32_t bad = 0;
        QTAPE_INDEPENDENT
        for (int64_t i = 0; i < n; ++i) {
          const float v = x[i];
          const bool nan = v != v;
          bad |= nan ? 1 : 0;
          const float code = code_of(v, q, grid);
          y[i] = static_cast<Code>(static_cast<int32_t>(nan ? low : code));
        }
        *clean = bad == 0;
      });
}

template <class Code, Rounding rounding>
Loop<Code> loop(Division division) {
  return division == Division::Exact ? loop<Code, rounding, Division::Exact>()
                                     : loop<Code, rounding, Division::Reciprocal>();
}

template <class Code>
Loop<Code> loop_of(const Quantize& op) {
  switch (op.rounding) {
    case Rounding::HalfAway:
      return loop<Code, Rounding::HalfAway>(op.division);
    case Rounding::HalfUp:
      return loop<Code, Rounding::HalfUp>(op.division);
    case Rounding::HalfEven:
      break;
  }
  return loop<Code, Rounding::HalfEven>(op.division);
}

}  // namespace

void refuse_nan(const float* x, int64_t n) {
  const float* nan = std::find_if(x, x + n, [](float v) { return v != v; });
  fail<GraphError>("element {} of the input {}", nan - x, nan_without_code);
}

IntegerValue Quantize::infer(IntegerInputs inputs) const {
  check_operands(inputs, 1);
  check(inputs[0].type.dtype == DType::F32, "x must be f32, got {}", to_string(inputs[0].type));
  return codes_of(grid, inputs[0].type.shape);
}

void Quantize::update(const IntegerBinding&, IntegerValue& y) const { set_grid(y, grid); }

IntegerKernel Quantize::optimized(const IntegerBinding& b) const {
  return dispatch_codes(grid.dtype, [&]<class Code>() -> IntegerKernel {
    return {.run = [this, loop = loop_of<Code>(*this), x = b.operand<float>(0), y = b.y<Code>(),
                    n = b.out().type.elements(), threads = b.threads] {
      const Numbers numbers = numbers_of(*this);
      std::atomic<bool> clean = true;
      parallel_for(threads, n, 1024, pointwise_grain, [&](int64_t begin, int64_t end) {
        bool fine = true;
        loop(x + begin, y + begin, end - begin, &numbers, &fine);
        if (!fine) clean = false;
      });
      if (!clean) refuse_nan(x, n);
    }};
  });
}

}  // namespace qtape::integer
