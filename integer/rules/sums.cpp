#include "qtape/integer/rules/sums.h"

#include "qtape/kernels/quantize/requantize.h"

namespace qtape {

Verdict classify_sum(const Operands& operands) {
  if (!operands.form(0).is_plain_codes()) return operands.refuse(0);
  const int64_t x = operands.shape(0).elements();
  const int64_t y = std::max<int64_t>(1, operands.result().elements());
  if (x > kernels::max_terms * y) {
    return refusal(fmt::format("accumulators may have at most 2^23 terms, got {}", x / y),
                   "sum fewer elements at once");
  }
  return {.is = Verdict::Is::Accumulators};
}

Verdict IntegerRule<AvgPool>::classify(const AvgPool& op, const Operands& operands) {
  if (!operands.form(0).is_plain_codes()) return operands.refuse(0);
  if (!op.common_divisor(op.pool(operands.shape(0)), kernels::max_terms)) {
    return refusal(fmt::format("windows of {} need accumulators of more than 2^23 terms",
                               to_string(op.kernel)),
                   op.count_include_pad ? "use smaller windows"
                                        : "use smaller windows, or set count_include_pad");
  }
  return {.is = Verdict::Is::Accumulators};
}

Verdict IntegerRule<Interpolate>::classify(const Interpolate& op, const Operands& operands) {
  if (!operands.form(0).is_plain_codes()) return operands.refuse(0);
  if (!op.common_divisor(kernels::max_terms)) {
    return refusal(fmt::format("the weights of an element may add up to at most 2^23, divisors "
                               "are {}",
                               to_string(Shape(op.divisor))),
                   "resize by a ratio of smaller numbers");
  }
  return {.is = Verdict::Is::Accumulators};
}

}  // namespace qtape
