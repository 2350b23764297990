#include "qtape/integer/ops/reduce.h"

#include <fmt/format.h>

#include <algorithm>

#include "qtape/integer/core/integer_binding.h"
#include "qtape/kernels/simd/threads.h"
#include "qtape/kernels/simd/vectorize.h"
#include "qtape/kernels/simd/versions.h"
#include "qtape/ops/families/reduction.h"

namespace qtape::integer {
namespace {

/// Folds x - zero into y, which has one element or as many as x.
template <class X, class Y>
using FoldLoop = void (*)(const X* x, Y* y, int64_t n, int32_t zero);

/// y += x - zero; `kept`: of as many elements as x.
template <class X, class Acc>
FoldLoop<X, Acc> sum_loop(bool kept) {
  if (kept) {
    return simd::best<const X*, Acc*, int64_t, int32_t>(
        [](const X* x, Acc* y, int64_t n, int32_t zero) {
          QTAPE_INDEPENDENT
          for (int64_t i = 0; i < n; ++i) y[i] = static_cast<Acc>(y[i] + (x[i] - zero));
        });
  }
  return simd::best<const X*, Acc*, int64_t, int32_t>(
      [](const X* x, Acc* y, int64_t n, int32_t zero) {
        Acc sum = 0;
        for (int64_t i = 0; i < n; ++i) sum = static_cast<Acc>(sum + (x[i] - zero));
        *y = static_cast<Acc>(*y + sum);
      });
}

/// y = max(y, x); `kept`: of as many elements as x.
template <class X>
FoldLoop<X, X> max_loop(bool kept) {
  if (kept) {
    return simd::best<const X*, X*, int64_t, int32_t>([](const X* x, X* y, int64_t n, int32_t) {
      QTAPE_INDEPENDENT
      for (int64_t i = 0; i < n; ++i) y[i] = std::max(y[i], x[i]);
    });
  }
  return simd::best<const X*, X*, int64_t, int32_t>([](const X* x, X* y, int64_t n, int32_t) {
    X most = *y;
    for (int64_t i = 0; i < n; ++i) most = std::max(most, x[i]);
    *y = most;
  });
}

/// Folds x over the axes that y lacks, one row of the last axis at a time.
template <class X, class Y>
class Folding {
 public:
  /// `loop` returns the loop for a last axis that y has, or lacks.
  Folding(const Shape& x, const Shape& y, FoldLoop<X, Y> (*loop)(bool kept))
      : axes_(walk_axes(x, y, y)), elements_(x.elements()) {
    if (axes_.empty()) axes_.push_back({});
    last_ = axes_.back();
    axes_.pop_back();
    if (axes_.empty()) axes_.push_back({});
    loop_ = loop(last_.a != 0);
  }

  /// y must have its initial value. Threads divide the outermost axis if y has it.
  void run(const X* x, Y* y, int32_t zero, int threads) const {
    if (elements_ == 0) return;
    const int64_t rows = elements_ / last_.extent;
    const int64_t pieces = axes_[0].a == 0 ? 1 : axes_[0].extent;
    const int64_t grain = std::max<int64_t>(1, pointwise_grain * pieces / elements_);
    parallel_for(threads, pieces, 1, grain, [&](int64_t begin, int64_t end) {
      for (int64_t row = rows / pieces * begin; row < rows / pieces * end; ++row) {
        const Offsets at = offsets_at(axes_, row);
        loop_(x + at.x, y + at.a, last_.extent, zero);
      }
    });
  }

 private:
  std::vector<WalkAxis> axes_;  // except the last; at least 1
  WalkAxis last_;
  int64_t elements_;
  FoldLoop<X, Y> loop_;
};

}  // namespace

IntegerValue Max::infer(IntegerInputs inputs) const {
  check_operands(inputs, 1);
  check_codes(inputs[0], "x");
  IntegerValue y = inputs[0];
  y.type.shape = reduced_shape(y.type.shape, axes, keep_dims);
  check(y.type.elements() == 0 || inputs[0].type.elements() > 0,
        "the maximum of no elements is undefined, x is {}", to_string(inputs[0].type));
  return y;
}

void Max::update(const IntegerBinding& b, IntegerValue& y) const {
  y.scales[0] = b.in(0).scales[0];
  y.zero_point = b.in(0).zero_point;
  y.low = b.in(0).low;
  y.high = b.in(0).high;
}

IntegerKernel Max::optimized(const IntegerBinding& b) const {
  return dispatch_codes(b.out().type.dtype, [&]<class Code>() -> IntegerKernel {
    const Shape& shape = b.in(0).type.shape;
    return {.run = [folding = Folding(shape, reduced_shape(shape, axes), max_loop<Code>),
                    x = b.operand<Code>(0), y = b.y<Code>(), n = b.out().type.elements(),
                    threads = b.threads] {
      std::fill_n(y, n, std::numeric_limits<Code>::lowest());
      folding.run(x, y, 0, threads);
    }};
  });
}

IntegerValue Sum::infer(IntegerInputs inputs) const {
  check_operands(inputs, 1);
  const IntegerValue& x = inputs[0];
  check_codes(x, "x");
  const Shape shape = reduced_shape(x.type.shape, axes, keep_dims);
  const int64_t terms = reduced_terms(x.type.shape, axes);
  check(terms <= max_terms, "accumulators may have at most 2^23 terms, got {}", terms);
  check(terms > 0 || shape.elements() == 0 || !mean,
        "the mean of no elements is undefined, x is {}", to_string(x.type));
  const int64_t low = terms * (x.low - x.zero_point);
  const int64_t high = terms * (x.high - x.zero_point);
  const bool narrow = std::max(std::abs(low), std::abs(high)) <= Certificate::s32_limit;
  IntegerValue y{{narrow ? DType::S32 : DType::S64, shape}, {scale_of(x)}, 0, low, high};
  if (mean) y.terms = std::max<int64_t>(1, terms);
  return y;
}

double Sum::scale_of(const IntegerValue& x) const {
  const int64_t terms = std::max<int64_t>(1, reduced_terms(x.type.shape, axes));
  return mean ? x.scales[0] / static_cast<double>(terms) : x.scales[0];
}

void Sum::update(const IntegerBinding& b, IntegerValue& y) const {
  y.scales[0] = scale_of(b.in(0));
}

IntegerKernel Sum::optimized(const IntegerBinding& b) const {
  return dispatch_codes(b.in(0).type.dtype, [&]<class Code>() {
    return dispatch_accumulators(b.out().type.dtype, [&]<class Acc>() -> IntegerKernel {
      const Shape& shape = b.in(0).type.shape;
      return {.run = [folding = Folding(shape, reduced_shape(shape, axes), sum_loop<Code, Acc>),
                      x = b.operand<Code>(0), y = b.y<Acc>(), n = b.out().type.elements(),
                      value = b.inputs[0], threads = b.threads] {
        std::fill_n(y, n, Acc(0));
        folding.run(x, y, value->zero_point, threads);
      }};
    });
  });
}

}  // namespace qtape::integer
