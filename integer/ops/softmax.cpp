#include "qtape/integer/ops/softmax.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <memory>

#include "qtape/integer/core/fixed_point.h"
#include "qtape/integer/core/integer_binding.h"
#include "qtape/kernels/simd/threads.h"

namespace qtape::integer {

using namespace kernels;
namespace {

/// Factor of differences in Q5.26, as a mantissa of 31 bits and a shift to the left.
struct DifferenceScale {
  int64_t mantissa = 0;
  int left = 0;

  explicit DifferenceScale(double factor) {
    const double fraction = std::frexp(factor, &left);
    mantissa = std::llround(std::ldexp(fraction, 31));
    if (mantissa <= fixed_one) return;
    mantissa /= 2;
    ++left;
  }
  /// Largest magnitude of a difference that keeps its bits.
  int64_t reach() const { return (int64_t{31} << 26) >> left; }
};

double difference_factor(double beta, double s) {
  return std::min(beta * s * 0x1p26, static_cast<double>(fixed_one));
}

/// Computes one row of n codes.
void softmax_row(const Exponentials& exps, const int8_t* x, int8_t* y, int64_t n) {
  const int32_t most = *std::max_element(x, x + n);
  const auto exp_of = [&](int64_t i) { return exps[static_cast<size_t>(most - x[i])]; };
  uint32_t sum = 0;
  for (int64_t i = 0; i < n; ++i)
    sum += static_cast<uint32_t>((int64_t{exp_of(i)} + 2048) >> 12);
  const int left = std::countl_zero(sum);
  const int64_t factor = std::min(2 * fixed_reciprocal((sum << left) >> 1), fixed_one);
  const int down = 35 - left;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t code = nearest_shift(high_product(factor, exp_of(i)), down);
    y[i] = static_cast<int8_t>(std::min<int64_t>(code, 255) - 128);
  }
}

}  // namespace

Exponentials Softmax::exponentials(double s) const {
  const DifferenceScale scale(difference_factor(beta, s));
  Exponentials all{};
  for (int64_t d = 0; d < std::ssize(all) && d <= scale.reach(); ++d) {
    const int64_t scaled = high_product(-d * (int64_t{1} << scale.left), scale.mantissa);
    all[static_cast<size_t>(d)] = static_cast<int32_t>(fixed_exp(scaled, 5));
  }
  return all;
}

IntegerValue Softmax::infer(IntegerInputs inputs) const {
  check_operands(inputs, 1);
  const TensorType& x = inputs[0].type;
  check(x.dtype == DType::S8 && x.shape.rank() >= 1, "x must be codes s8 [..., c], got {}",
        to_string(x));
  check(x.shape[-1] >= 1 && x.shape[-1] <= max_terms,
        "x must have 1 to {} codes along the last axis, got {}", max_terms, to_string(x));
  check(beta > 0 && std::isfinite(beta), "beta must be positive and finite, got {}", beta);
  const double s = inputs[0].scales[0];
  check(difference_factor(beta, s) > 1,
        "beta times the scale of x must be above 2^-26, got {} times {}", beta, s);
  return codes_of({DType::S8, 0x1p-8, -128, -128, 127}, x.shape);
}

IntegerKernel Softmax::optimized(const IntegerBinding& b) const {
  if (b.out().type.elements() == 0) return {};
  const auto exps = std::make_shared<Exponentials>();
  const int64_t n = b.in(0).type.shape[-1];
  const int64_t rows = b.out().type.elements() / n;
  const int64_t grain = std::max<int64_t>(1, pointwise_grain / 8 / n);
  return {.load = [this, exps, value = b.inputs[0]]() -> Fault {
            if (!(difference_factor(beta, value->scales[0]) > 1)) {
              return {"softmax of codes: the scale {value} is too small", 0, value->scales[0]};
            }
            *exps = exponentials(value->scales[0]);
            return {};
          },
          .run =
              [exps, n, rows, grain, x = b.operand<int8_t>(0), y = b.y<int8_t>(),
               threads = b.threads] {
                parallel_for(threads, rows, 1, grain, [&](int64_t begin, int64_t end) {
                  for (int64_t r = begin; r < end; ++r) {
                    softmax_row(*exps, x + r * n, y + r * n, n);
                  }
                });
              }};
}

}  // namespace qtape::integer
