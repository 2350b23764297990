#include "qtape/integer/ops/reduce.h"

#include <algorithm>

#include "qtape/integer/integer_binding.h"
#include "qtape/ops/families/reduction.h"

namespace qtape::integer {
namespace {

/// For each element of x, in order, which element of y it belongs to.
std::vector<int64_t> targets(const Shape& x, std::span<const int> axes) {
  const Shape y = reduced_shape(x, axes);
  std::vector<int64_t> result(static_cast<size_t>(x.elements()));
  for (size_t i = 0; i < result.size(); ++i) {
    int64_t rest = static_cast<int64_t>(i);
    int64_t stride = 1;
    for (int axis = x.rank() - 1; axis >= 0; --axis) {
      if (y[axis] > 1) result[i] += rest % x[axis] * stride;
      stride *= y[axis];
      rest /= x[axis];
    }
  }
  return result;
}

}  // namespace

static_assert(IntegerCompute<Max> && IntegerCompute<Sum>);

IntegerValue Max::infer(IntegerInputs inputs) const {
  check_operands(inputs, 1);
  check_codes(inputs[0], "x");
  IntegerValue y = inputs[0];
  y.type.shape = reduced_shape(y.type.shape, axes, keep_dims);
  check(y.type.elements() == 0 || inputs[0].type.elements() > 0,
        "the maximum of no elements, x is {}", to_string(inputs[0].type));
  return y;
}

void Max::update(const IntegerBinding& b, IntegerValue& y) const {
  y.scales[0] = b.in(0).scales[0];
  y.zero_point = b.in(0).zero_point;
  y.low = b.in(0).low;
  y.high = b.in(0).high;
}

IntegerKernel Max::reference(const IntegerBinding& b) const {
  return dispatch_codes(b.out().type.dtype, [&]<class Code>() -> IntegerKernel {
    return {.run = [to = targets(b.in(0).type.shape, axes), x = b.operand<Code>(0),
                    y = b.y<Code>(), n = b.out().type.elements()] {
      std::fill_n(y, n, std::numeric_limits<Code>::lowest());
      for (size_t i = 0; i < to.size(); ++i) y[to[i]] = std::max(y[to[i]], x[i]);
    }};
  });
}

IntegerValue Sum::infer(IntegerInputs inputs) const {
  check_operands(inputs, 1);
  const IntegerValue& x = inputs[0];
  check_codes(x, "x");
  const Shape shape = reduced_shape(x.type.shape, axes, keep_dims);
  const int64_t terms = reduced_terms(x.type.shape, axes);
  check(terms <= max_terms, "accumulators may have 2^23 terms, got {}", terms);
  check(terms > 0 || shape.elements() == 0 || !mean, "the mean of no elements, x is {}",
        to_string(x.type));
  const int64_t low = terms * (x.low - x.zero_point);
  const int64_t high = terms * (x.high - x.zero_point);
  const bool narrow = std::max(std::abs(low), std::abs(high)) <= Certificate::s32_limit;
  return {{narrow ? DType::S32 : DType::S64, shape}, {scale_of(x)}, 0, low, high};
}

double Sum::scale_of(const IntegerValue& x) const {
  const int64_t terms = std::max<int64_t>(1, reduced_terms(x.type.shape, axes));
  return mean ? x.scales[0] / static_cast<double>(terms) : x.scales[0];
}

void Sum::update(const IntegerBinding& b, IntegerValue& y) const {
  y.scales[0] = scale_of(b.in(0));
}

IntegerKernel Sum::reference(const IntegerBinding& b) const {
  return dispatch_codes(b.in(0).type.dtype, [&]<class Code>() {
    return dispatch_accumulators(b.out().type.dtype, [&]<class Acc>() -> IntegerKernel {
      return {.run = [to = targets(b.in(0).type.shape, axes), x = b.operand<Code>(0),
                      y = b.y<Acc>(), n = b.out().type.elements(), value = b.inputs[0]] {
        const int32_t zero = value->zero_point;
        std::fill_n(y, n, Acc(0));
        for (size_t i = 0; i < to.size(); ++i) {
          y[to[i]] = static_cast<Acc>(y[to[i]] + (static_cast<Acc>(x[i]) - zero));
        }
      }};
    });
  });
}

}  // namespace qtape::integer
