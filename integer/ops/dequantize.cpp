#include "qtape/integer/ops/dequantize.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "qtape/integer/integer_binding.h"
#include "qtape/kernels/simd/threads.h"

namespace qtape::integer {

using namespace kernels;
namespace {

template <class X>
IntegerKernel bind(const Dequantize& op, const IntegerBinding& b, int threads) {
  std::vector<float> scales(b.inputs[0].scales.begin(), b.inputs[0].scales.end());
  constexpr float inf = std::numeric_limits<float>::infinity();
  return [scales = std::move(scales), zero_point = b.inputs[0].zero_point,
          low = op.low ? static_cast<float>(*op.low) : -inf,
          high = op.high ? static_cast<float>(*op.high) : inf, x = b.operand<X>(0),
          y = b.y<float>(), n = b.output.type.elements(), threads] {
    const auto channels = std::max<int64_t>(1, std::ssize(scales));
    parallel_for(threads, n, channels, pointwise_grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const float value = static_cast<float>(int64_t{x[i]} - zero_point) *
                            scales[static_cast<size_t>(i % channels)];
        const float lifted = value < low ? low : value;
        y[i] = lifted > high ? high : lifted;
      }
    });
  };
}

}  // namespace

static_assert(IntegerCompute<Dequantize>);

IntegerValue Dequantize::infer(IntegerInputs inputs) const {
  check_operands(inputs, 1);
  check(inputs[0].is_codes() || inputs[0].is_accumulators(),
        "x must be codes or accumulators, got {}", to_string(inputs[0].type));
  const double least = low.value_or(-std::numeric_limits<double>::infinity());
  const double most = high.value_or(std::numeric_limits<double>::infinity());
  check(least <= most, "low must be at most high, got {} and {}", least, most);
  return {{DType::F32, inputs[0].type.shape}};
}

IntegerKernel Dequantize::reference(const IntegerBinding& b) const {
  return dispatch_integers(b.inputs[0].type.dtype,
                           [&]<class X>() { return bind<X>(*this, b, 1); });
}

IntegerKernel Dequantize::kernel(const IntegerBinding& b) const {
  return dispatch_integers(b.inputs[0].type.dtype,
                           [&]<class X>() { return bind<X>(*this, b, b.threads); });
}

}  // namespace qtape::integer
