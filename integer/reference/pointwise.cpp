// References of integer ops that compute each element by itself.
#include <algorithm>
#include <cmath>

#include "qtape/integer/ops/constant.h"
#include "qtape/integer/ops/dequantize.h"
#include "qtape/integer/ops/lookup.h"
#include "qtape/integer/ops/pairs.h"
#include "qtape/integer/ops/quantize.h"
#include "qtape/integer/ops/requantize.h"
#include "qtape/integer/reference/integers.h"
#include "qtape/kernels/quantize/requantize.h"

namespace qtape::integer {
namespace {

using namespace reference;

int64_t clamped(int64_t rounded, const CodeGrid& grid) {
  return std::clamp<int64_t>(rounded + grid.zero_point, grid.low, grid.high);
}

float rounded(float v, Rounding rounding) {
  switch (rounding) {
    case Rounding::HalfAway:
      return std::round(v);
    case Rounding::HalfUp:
      return static_cast<float>(std::floor(double{v} + 0.5));
    case Rounding::HalfEven:
      break;
  }
  const float down = std::floor(v);
  const float beyond = v - down;
  if (beyond != 0.5f) return beyond < 0.5f ? down : down + 1;
  return std::fmod(down, 2.0f) == 0 ? down : down + 1;
}

int64_t quantized(float x, const Quantize& op) {
  const auto scale = static_cast<float>(op.grid.scale);
  const auto zero = static_cast<float>(op.grid.zero_point);
  const float steps = op.division == Division::Exact ? x / scale : x * (1.0f / scale);
  const bool before = op.zero_point == ZeroPoint::BeforeRounding;
  const float code = before ? rounded(steps + zero, op.rounding) : rounded(steps, op.rounding);
  const int64_t added = before ? 0 : op.grid.zero_point;
  const auto low = static_cast<float>(op.grid.low - added);
  const auto high = static_cast<float>(op.grid.high - added);
  return static_cast<int64_t>(code < low ? low : code > high ? high : code) + added;
}

/// Index of the element of `x` that is repeated at element `i` of `y`.
int64_t repeated(int64_t i, const Shape& x, const Shape& y) {
  int64_t place = 0;
  int64_t stride = 1;
  for (int back = 1; back <= x.rank(); ++back) {
    if (x[-back] != 1) place += i % y[-back] * stride;
    i /= y[-back];
    stride *= x[-back];
  }
  return place;
}

/// Calls `code(x, z)` with the places of each pair of codes.
template <class Code>
IntegerKernel at_pairs(const IntegerBinding& b, const Code& code) {
  return {.run = [code, x = operand(b, 0), z = operand(b, 1), y = result(b),
                  to = b.out().type.shape] {
    for (int64_t i = 0; i < to.elements(); ++i) {
      y.set(i, code(repeated(i, x.shape(), to), repeated(i, z.shape(), to)));
    }
  }};
}

/// Runs `code` on each pair of codes minus their zero points.
template <class Code>
IntegerKernel pairs(const IntegerBinding& b, const Code& code) {
  return at_pairs(b, [code, x = operand(b, 0), z = operand(b, 1)](int64_t i, int64_t k) {
    return code(x.difference(i), z.difference(k));
  });
}

/// Sums of a and `sign` b.
IntegerKernel sums(const IntegerBinding& b, const CodeGrid& grid, int sign) {
  const Operand a = operand(b, 0);
  const Operand c = operand(b, 1);
  return pairs(b, [=, requantization = b.requantization](int64_t x, int64_t z) {
    const AddMultiplier multiplier =
        add_multiplier_of(a.value->scales[0], c.value->scales[0], grid.scale,
                          size_of(a.dtype) > 1 || size_of(c.dtype) > 1);
    return clamped(requantize_add(static_cast<int32_t>(x), static_cast<int32_t>(sign * z),
                                  multiplier, requantization),
                   grid);
  });
}

}  // namespace

IntegerKernel Quantize::reference(const IntegerBinding& b) const {
  return {.run = [this, x = b.operand<float>(0), y = result(b), n = b.out().type.elements()] {
    for (int64_t i = 0; i < n; ++i) {
      if (std::isnan(x[i])) refuse_nan(x, n);
      y.set(i, quantized(x[i], *this));
    }
  }};
}

IntegerKernel Requantize::reference(const IntegerBinding& b) const {
  const auto multipliers = std::make_shared<std::vector<Multiplier>>(b.in(0).scales.size());
  const auto load = [this, multipliers, x = b.inputs[0], requantization = b.requantization] {
    for (size_t c = 0; c < multipliers->size(); ++c) {
      (*multipliers)[c] = multiplier_to(grid.scale, *x, c, requantization);
    }
    return Fault{};
  };
  return {
      load, [this, multipliers, requantization = b.requantization, x = operand(b, 0),
             y = result(b), n = b.out().type.elements()] {
        for (int64_t i = 0; i < n; ++i) {
          const Multiplier& m = (*multipliers)[static_cast<size_t>(i) % multipliers->size()];
          y.set(i, clamped(requantize(x.difference(i), m, requantization, x.value->accumulator),
                           grid));
        }
      }};
}

IntegerKernel Dequantize::reference(const IntegerBinding& b) const {
  return {.run = [this, x = operand(b, 0), y = b.y<float>(), n = b.out().type.elements()] {
    const std::vector<double>& scales = x.value->scales;
    for (int64_t i = 0; i < n; ++i) {
      const auto scale = static_cast<float>(scales[static_cast<size_t>(i) % scales.size()]);
      y[i] = static_cast<float>(x.difference(i)) * scale;
      if (low) y[i] = y[i] < static_cast<float>(*low) ? static_cast<float>(*low) : y[i];
      if (high) y[i] = y[i] > static_cast<float>(*high) ? static_cast<float>(*high) : y[i];
    }
  }};
}

IntegerKernel Lookup::reference(const IntegerBinding& b) const {
  const int64_t least = dispatch_codes(b.in(0).type.dtype, []<class Code>() {
    return int64_t{std::numeric_limits<Code>::lowest()};
  });
  const Shape& shape = table.type.shape;
  const int64_t rows = shape.rank() == 2 ? shape[0] : 1;
  return {.run = [least, rows, width = shape[-1],
                  entries = Integers{table.data.data(), grid.dtype}, x = operand(b, 0),
                  y = result(b), n = b.out().type.elements()] {
    for (int64_t i = 0; i < n; ++i) y.set(i, entries[i % rows * width + x[i] - least]);
  }};
}

IntegerKernel Add::reference(const IntegerBinding& b) const { return sums(b, grid, 1); }
IntegerKernel Sub::reference(const IntegerBinding& b) const { return sums(b, grid, -1); }

IntegerKernel Mul::reference(const IntegerBinding& b) const {
  const Operand a = operand(b, 0);
  const Operand c = operand(b, 1);
  return pairs(b, [=, to = grid, requantization = b.requantization](int64_t x, int64_t z) {
    const Multiplier multiplier =
        multiplier_of(a.value->scales[0] * c.value->scales[0], to.scale);
    return clamped(requantize(x * z, multiplier, requantization), to);
  });
}

IntegerKernel Maximum::reference(const IntegerBinding& b) const {
  return at_pairs(b, [x = operand(b, 0), z = operand(b, 1)](int64_t i, int64_t k) {
    return std::max(x[i], z[k]);
  });
}

IntegerKernel Minimum::reference(const IntegerBinding& b) const {
  return at_pairs(b, [x = operand(b, 0), z = operand(b, 1)](int64_t i, int64_t k) {
    return std::min(x[i], z[k]);
  });
}

IntegerKernel Constant::reference(const IntegerBinding& b) const {
  return {.run = [all = Integers{codes.data.data(), grid.dtype}, y = result(b),
                  n = b.out().type.elements()] {
    for (int64_t i = 0; i < n; ++i) y.set(i, all[i]);
  }};
}

}  // namespace qtape::integer
