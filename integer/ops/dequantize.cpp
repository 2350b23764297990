#include "qtape/integer/ops/dequantize.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>

#include "qtape/integer/core/integer_binding.h"
#include "qtape/integer/products/epilogue.h"
#include "qtape/kernels/quantize/code_kernels.h"
#include "qtape/kernels/quantize/requantize_kernels.h"
#include "qtape/kernels/simd/threads.h"

namespace qtape::integer {

using namespace kernels;
namespace {

/// Clamps y if limits are given.
struct Limits {
  float low;
  float high;
  bool any;

  explicit Limits(const Dequantize& op)
      : low(op.low ? static_cast<float>(*op.low) : -std::numeric_limits<float>::infinity()),
        high(op.high ? static_cast<float>(*op.high) : std::numeric_limits<float>::infinity()),
        any(op.low || op.high) {}

  float operator()(float v) const {
    const float lifted = v < low ? low : v;
    return lifted > high ? high : lifted;
  }
  void apply(float* y, int64_t n) const {
    for (int64_t i = 0; any && i < n; ++i) y[i] = (*this)(y[i]);
  }
};

template <class X>
IntegerKernel plain(const Dequantize& op, const IntegerBinding& b) {
  return {.run = [limits = Limits(op), value = b.inputs[0], x = b.operand<X>(0),
                  y = b.y<float>(), n = b.out().type.elements(), threads = b.threads] {
    const auto channels = std::max<int64_t>(1, std::ssize(value->scales));
    parallel_for(threads, n, channels, pointwise_grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const auto scale = static_cast<float>(value->scales[static_cast<size_t>(i % channels)]);
        y[i] = limits(static_cast<float>(int64_t{x[i]} - value->zero_point) * scale);
      }
    });
  }};
}

IntegerKernel of_codes(const Dequantize& op, const IntegerBinding& b) {
  const DType dtype = b.in(0).type.dtype;
  return {.run = [limits = Limits(op), loop = decode_loop(dtype), size = size_of(dtype),
                  value = b.inputs[0], x = b.operand<std::byte>(0), y = b.y<float>(),
                  n = b.out().type.elements(), threads = b.threads] {
    const auto scale = static_cast<float>(value->scales[0]);
    parallel_for(threads, n, 1024, pointwise_grain, [&](int64_t begin, int64_t end) {
      loop(x + begin * size, y + begin, end - begin, scale, value->zero_point);
      limits.apply(y + begin, end - begin);
    });
  }};
}

/// Loads the scales of accumulators as multipliers, with no requantization.
void load_scales(const IntegerValue& x, std::span<const int64_t> offsets, int64_t n,
                 std::vector<Multiplier>& scales, RequantizeTable& table) {
  scales.clear();
  for (double scale : x.scales) {
    scales.push_back({.accumulator_scale = static_cast<float>(scale)});
  }
  table.assign(scales, offsets, n);
}

struct Scales {
  std::vector<Multiplier> multipliers;
  RequantizeTable table;
};

IntegerKernel of_accumulators(const Dequantize& op, const IntegerBinding& b) {
  const auto n = static_cast<int64_t>(b.in(0).scales.size());
  auto state = std::make_shared<Scales>();
  return {[state, n, x = b.inputs[0]] {
            load_scales(*x, {}, n, state->multipliers, state->table);
            return Fault{};
          },
          [state, n, limits = Limits(op), loop = dequantize_accumulators_loop(),
           rows = n == 0 ? 0 : b.out().type.elements() / n, x = b.operand<int32_t>(0),
           y = b.y<float>(), threads = b.threads] {
            const int64_t grain =
                std::max<int64_t>(1, pointwise_grain / std::max<int64_t>(1, n));
            parallel_for(threads, rows, 1, grain, [&](int64_t begin, int64_t end) {
              loop(x + begin * n, y + begin * n, end - begin, &state->table);
              limits.apply(y + begin * n, (end - begin) * n);
            });
          }};
}

}  // namespace

IntegerValue Dequantize::infer(IntegerInputs inputs) const {
  check_operands(inputs, 1);
  check(inputs[0].is_codes() || inputs[0].is_accumulators(),
        "x must be codes or accumulators, got {}", to_string(inputs[0].type));
  const double least = low.value_or(-std::numeric_limits<double>::infinity());
  const double most = high.value_or(std::numeric_limits<double>::infinity());
  check(least <= most, "low must be at most high, got {} and {}", least, most);
  for (const std::optional<double>& limit : {low, high}) {
    check(std::abs(limit.value_or(0)) <= std::numeric_limits<float>::max(),
          "low and high must be numbers of f32, got {}", limit.value_or(0));
  }
  return {{DType::F32, inputs[0].type.shape}};
}

IntegerKernel Dequantize::optimized(const IntegerBinding& b) const {
  if (b.in(0).is_codes()) return of_codes(*this, b);
  if (b.in(0).type.dtype == DType::S32) return of_accumulators(*this, b);
  return plain<int64_t>(*this, b);
}

Epilogue Dequantize::epilogue(const IntegerBinding& b) const {
  auto state = std::make_shared<Scales>();
  const auto n = b.in(0).type.shape[-1];
  float* y = b.y<float>();
  return {[state, n, x = b.inputs[0]](std::span<const int64_t> offsets) {
            load_scales(*x, offsets, n, state->multipliers, state->table);
            return Fault{};
          },
          [state, n, y, limits = Limits(*this), loop = dequantize_accumulators_loop()](
              int64_t row, int64_t rows, const int32_t* products) {
            loop(products, y + row * n, rows, &state->table);
            limits.apply(y + row * n, rows * n);
          },
          [state, n, y, limits = Limits(*this)](int64_t row, int64_t rows,
                                                const int64_t* products) {
            float* to = y + row * n;
            for (int64_t i = 0; i < rows * n; ++i) {
              const auto c = static_cast<size_t>(i % n);
              to[i] = limits(static_cast<float>(products[i] + state->table.offsets[c]) *
                             state->table.accumulator_scale[c]);
            }
          }};
}

}  // namespace qtape::integer
