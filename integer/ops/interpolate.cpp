#include "qtape/integer/ops/interpolate.h"

#include <algorithm>
#include <cstdlib>

#include "qtape/integer/core/integer_binding.h"
#include "qtape/ops/families/terms.h"

namespace qtape::integer {
namespace {

/// Returns the loop that computes rows [begin, end) of y.
template <class Code, class Acc>
auto interpolate_loop() {
  return simd::best<const TermSums*, const Code*, Acc*, int32_t, int64_t, int64_t>(
      [](const TermSums* s, const Code* x, Acc* y, int32_t zero, int64_t begin, int64_t end) {
        const int64_t n = s->channels;
        for (int64_t r = begin; r < end; ++r) {
          const int64_t i = r % s->h.size();
          const Code* image = x + r / s->h.size() * s->height * s->width * n;
          for (int64_t j = 0; j < s->w.size(); ++j) {
            Acc* to = y + (r * s->w.size() + j) * n;
            std::fill_n(to, n, Acc(0));
            for (int64_t p = s->h.begin(i); p < s->h.end(i); ++p) {
              for (int64_t q = s->w.begin(j); q < s->w.end(j); ++q) {
                const Acc by = static_cast<Acc>(s->h.times(p) * s->w.times(q));
                const Code* from = image + (s->h.from(p) * s->width + s->w.from(q)) * n;
                QTAPE_INDEPENDENT
                for (int64_t c = 0; c < n; ++c) {
                  to[c] += by * (static_cast<Acc>(from[c]) - Acc{zero});
                }
              }
            }
          }
        }
      });
}

}  // namespace

IntegerValue Interpolate::infer(IntegerInputs inputs) const {
  check_operands(inputs, 1);
  const IntegerValue& x = inputs[0];
  check_codes(x, "x");
  const Shape shape = resized(x.type.shape);
  const auto common = common_divisor(max_terms);
  check(common.has_value(),
        "the weights of an element may add up to at most 2^23, divisors are {}",
        to_string(Shape(divisor)));
  const int64_t low = *common * (x.low - x.zero_point);
  const int64_t high = *common * (x.high - x.zero_point);
  const bool narrow = std::max(std::abs(low), std::abs(high)) <= Certificate::s32_limit;
  return {{narrow ? DType::S32 : DType::S64, shape},
          {x.scales[0] / static_cast<double>(*common)},
          0,
          low,
          high};
}

void Interpolate::update(const IntegerBinding& b, IntegerValue& y) const {
  y.scales[0] = b.in(0).scales[0] / static_cast<double>(common_divisor(max_terms).value());
}

IntegerKernel Interpolate::optimized(const IntegerBinding& b) const {
  const Shape& x = b.in(0).type.shape;
  const bool one = x.rank() == 3;
  return dispatch_codes(b.in(0).type.dtype, [&]<class Code>() {
    return dispatch_accumulators(b.out().type.dtype, [&]<class Acc>() -> IntegerKernel {
      if (b.out().type.elements() == 0) return {};
      const TermSums sums{.images = x[0],
                          .channels = x[-1],
                          .h = one ? AxisTerms::one() : terms(0, x[1]),
                          .w = terms(one ? 0 : 1, x[-2]),
                          .height = one ? 1 : x[1],
                          .width = x[-2]};
      const int64_t grain = row_grain(sums.w.size() * sums.channels, 4);
      return {.run = [sums, grain, loop = interpolate_loop<Code, Acc>(),
                      from = b.operand<Code>(0), y = b.y<Acc>(), value = b.inputs[0],
                      threads = b.threads] {
        parallel_for(threads, sums.rows(), 1, grain, [&](int64_t begin, int64_t end) {
          loop(&sums, from, y, value->zero_point, begin, end);
        });
      }};
    });
  });
}

}  // namespace qtape::integer
