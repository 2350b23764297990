#include "qtape/integer/ops/requantize.h"

#include <algorithm>
#include <limits>

#include "qtape/integer/integer_binding.h"
#include "qtape/kernels/quantize/requantize_kernels.h"
#include "qtape/kernels/simd/threads.h"

namespace qtape::integer {

using namespace kernels;
namespace {

constexpr int64_t grain = 4096;

/// What makes a code of one sum or code.
struct Terms {
  std::vector<Multiplier> multipliers;  // by channel
  Requantization requantization;
  Accumulator accumulator;
  int32_t zero;  // of x
  CodeGrid grid;

  Terms(const Requantize& op, const IntegerBinding& b)
      : multipliers(multipliers_of(b.inputs[0], op.grid.scale)),
        requantization(b.requantization),
        accumulator(b.inputs[0].accumulator),
        zero(b.inputs[0].zero_point),
        grid(op.grid) {}

  int64_t code(int64_t x, size_t channel) const {
    const int64_t rounded =
        requantize(x - zero, multipliers[channel], requantization, accumulator);
    return std::clamp<int64_t>(rounded + grid.zero_point, grid.low, grid.high);
  }
};

/// One sum or code after the other, as requantize has it.
template <class X, class Code>
IntegerKernel plain(const Requantize& op, const IntegerBinding& b, int threads) {
  return [terms = Terms(op, b), x = b.operand<X>(0), y = b.y<Code>(),
          n = b.output.type.elements(), threads] {
    const size_t channels = terms.multipliers.size();
    parallel_for(threads, n, 64, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        y[i] = static_cast<Code>(terms.code(x[i], static_cast<size_t>(i) % channels));
      }
    });
  };
}

/// Codes by a table of all codes.
template <class X, class Code>
IntegerKernel looked_up(const Requantize& op, const IntegerBinding& b) {
  constexpr int32_t least = std::numeric_limits<X>::lowest();
  constexpr int32_t most = std::numeric_limits<X>::max();
  const Terms terms(op, b);
  std::vector<Code> table;
  for (int32_t x = least; x <= most; ++x) table.push_back(static_cast<Code>(terms.code(x, 0)));
  return [table = std::move(table), x = b.operand<X>(0), y = b.y<Code>(),
          n = b.output.type.elements(), threads = b.threads] {
    parallel_for(threads, n, 64, pointwise_grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) y[i] = table[static_cast<size_t>(x[i] - least)];
    });
  };
}

/// Accumulators of s32 by the vector loops.
template <class Code>
IntegerKernel vectorised(const Requantize& op, const IntegerBinding& b) {
  const int64_t n = static_cast<int64_t>(b.inputs[0].scales.size());
  RequantizeTable table(multipliers_of(b.inputs[0], op.grid.scale), {}, n);
  const RequantizeCodes codes{op.grid.zero_point, op.grid.low, op.grid.high};
  return [table = std::move(table), codes, loop = requantize_loop<Code>(b.requantization), n,
          rows = n == 0 ? 0 : b.output.type.elements() / n, x = b.operand<int32_t>(0),
          y = b.y<Code>(), threads = b.threads] {
    parallel_for(threads, rows, 1,
                 std::max<int64_t>(1, pointwise_grain / std::max<int64_t>(1, n)),
                 [&](int64_t begin, int64_t end) {
                   loop(x + begin * n, y + begin * n, end - begin, &table, &codes);
                 });
  };
}

template <class X, class Code>
IntegerKernel fast(const Requantize& op, const IntegerBinding& b) {
  if constexpr (std::is_same_v<X, int32_t>) {
    return vectorised<Code>(op, b);
  } else if constexpr (std::is_same_v<X, int64_t>) {
    return plain<X, Code>(op, b, b.threads);
  } else {
    return looked_up<X, Code>(op, b);
  }
}

}  // namespace

static_assert(IntegerCompute<Requantize>);

std::vector<Multiplier> multipliers_of(const IntegerValue& x, double scale) {
  std::vector<Multiplier> all;
  for (size_t c = 0; c < x.scales.size(); ++c) {
    check(are_scales(x.scales[c], scale),
          "scale {} of channel {} must be a positive normal f32, as must {}", x.scales[c], c,
          scale);
    all.push_back(multiplier_of(x.scales[c], scale));
  }
  return all;
}

IntegerValue Requantize::infer(IntegerInputs inputs) const {
  check_operands(inputs, 1);
  check(inputs[0].is_codes() || inputs[0].is_accumulators(),
        "x must be codes or accumulators, got {}", to_string(inputs[0].type));
  check(std::max(std::abs(inputs[0].low), std::abs(inputs[0].high)) < max_accumulator,
        "accumulators must be within 2^47 of 0, got {}..{}", inputs[0].low, inputs[0].high);
  (void)multipliers_of(inputs[0], grid.scale);
  return codes_of(grid, inputs[0].type.shape);
}

IntegerKernel Requantize::reference(const IntegerBinding& b) const {
  return dispatch_integers(b.inputs[0].type.dtype, [&]<class X>() {
    return dispatch_codes(grid.dtype,
                          [&]<class Code>() { return plain<X, Code>(*this, b, 1); });
  });
}

IntegerKernel Requantize::kernel(const IntegerBinding& b) const {
  return dispatch_integers(b.inputs[0].type.dtype, [&]<class X>() {
    return dispatch_codes(grid.dtype, [&]<class Code>() { return fast<X, Code>(*this, b); });
  });
}

}  // namespace qtape::integer
