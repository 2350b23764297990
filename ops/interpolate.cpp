#include "qtape/ops/interpolate.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "qtape/ops/families/terms.h"

namespace qtape {
namespace {

constexpr int64_t max_parts = std::numeric_limits<int32_t>::max();

void check_list(std::string_view name, const std::vector<int64_t>& list, int axes,
                int64_t low) {
  check(std::ssize(list) == axes, "{} must have {} numbers, one for each spatial axis, got {}",
        name, axes, list.size());
  for (size_t k = 0; k < list.size(); ++k) {
    check(list[k] >= low && list[k] <= max_parts, "{} must be in {}..{} along axis {}, got {}",
          name, low, max_parts, k + 1, list[k]);
  }
}

TermSums sums_of(const Interpolate& op, const Shape& x, const Shape& y) {
  const bool one = x.rank() == 3;
  TermSums sums{.images = x[0],
                .channels = x[-1],
                .h = one ? AxisTerms::one() : op.terms(0, x[1]),
                .w = op.terms(one ? 0 : 1, x[-2]),
                .height = one ? 1 : x[1],
                .width = x[-2]};
  for (const int64_t each : op.divisor) sums.divisor *= static_cast<double>(each);
  if (y.elements() == 0) sums.channels = 0;
  return sums;
}

}  // namespace

static_assert(Compute<Interpolate>);

Shape Interpolate::resized(const Shape& x) const {
  check(x.rank() == 3 || x.rank() == 4, "x must be [n, h, w, c] or [n, l, c], got {}",
        to_string(x));
  const int axes = x.rank() - 2;
  check_list("extents", extents, axes, 1);
  check_list("step", step, axes, 0);
  check_list("offset", offset, axes, -max_parts);
  check_list("divisor", divisor, axes, 1);
  Shape y = x;
  for (int k = 0; k < axes; ++k) {
    check(x[1 + k] > 0, "x {} has no elements along axis {}", to_string(x), 1 + k);
    y = y.with(1 + k, extents[static_cast<size_t>(k)]);
  }
  return y;
}

std::optional<int64_t> Interpolate::common_divisor(int64_t most) const {
  int64_t all = 1;
  for (const int64_t each : divisor) {
    if (each > most / all) return std::nullopt;
    all *= each;
  }
  return all;
}

AxisTerms Interpolate::terms(size_t k, int64_t in) const {
  AxisTerms terms;
  for (int64_t i = 0; i < extents[k]; ++i) {
    const int64_t at = std::max<int64_t>(0, step[k] * i + offset[k]);
    const int64_t low = std::min(at / divisor[k], in - 1);
    const int64_t rest = low == in - 1 ? 0 : at % divisor[k];
    terms.add(low, divisor[k] - rest);
    if (rest > 0) terms.add(low + 1, rest);
    terms.close();
  }
  return terms;
}

TensorType Interpolate::infer(Inputs inputs) const {
  check_compute(inputs[0]);
  return {inputs[0].dtype, resized(inputs[0].shape)};
}

Kernel Interpolate::forward(const Binding& b) const {
  return dispatch_compute(b.output.dtype, [&]<class T>() {
    return bind_term_sums(sums_of(*this, b.inputs[0].shape, b.output.shape),
                          b.operand<const T>(0), b.y<T>(), false, b.threads);
  });
}

Kernel Interpolate::backward(const Binding& b) const {
  if (!b.wanted(0)) return {};
  TermSums sums = sums_of(*this, b.inputs[0].shape, b.output.shape);
  sums.h = turned(sums.h, std::exchange(sums.height, sums.h.size()));
  sums.w = turned(sums.w, std::exchange(sums.width, sums.w.size()));
  return dispatch_compute(b.output.dtype, [&]<class T>() {
    return bind_term_sums(std::move(sums), b.dy_as<const T>(), b.dx<T>(0), b.accumulate(0),
                          b.threads);
  });
}

}  // namespace qtape
