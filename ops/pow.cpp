#include "qtape/ops/pow.h"

#include <cmath>

#include "qtape/ops/families/elementwise_kernels.h"

namespace qtape {
namespace {

/// A Pow whose exponent is known when the loop is compiled: others, which test it for each
/// element, do not vectorise.
template <int twice>
struct PowOf {
  static constexpr SlopeOf slope_of = Pow::slope_of;
  template <class T>
  T value(T x) const {
    return Pow{.exponent = twice / 2.0}.value(x);
  }
  template <class T>
  T slope(T x) const {
    return Pow{.exponent = twice / 2.0}.slope(x);
  }
};

/// A Pow whose exponent and the exponent of its slope are neither integers nor halves of 1.
struct FractionalPow {
  static constexpr SlopeOf slope_of = Pow::slope_of;

  double exponent;

  template <class T>
  T value(T x) const {
    return static_cast<T>(Pow::fractional_power(x, exponent));
  }
  template <class T>
  T slope(T x) const {
    return static_cast<T>(exponent * Pow::fractional_power(x, exponent - 1.0));
  }
};

/// Calls `make` with the exponent as an op of loops that vectorise, if there is one.
template <class Make>
Kernel with_exponent(const Pow& op, const Make& make) {
  const double twice = 2.0 * op.exponent;
  if (twice == -2.0) return make(PowOf<-2>{});
  if (twice == -1.0) return make(PowOf<-1>{});
  if (twice == 1.0) return make(PowOf<1>{});
  if (twice == 3.0) return make(PowOf<3>{});
  if (twice == 4.0) return make(PowOf<4>{});
  if (twice == 6.0) return make(PowOf<6>{});
  const auto whole = [](double p) { return std::floor(p) == p; };
  if (whole(op.exponent) || whole(op.exponent - 1.0)) return make(op);
  return make(FractionalPow{op.exponent});
}

}  // namespace

TensorType Pow::infer(Inputs inputs) const {
  const TensorType y = elementwise::infer(inputs);
  check(std::isfinite(exponent), "exponent must be finite, got {}", exponent);
  return y;
}
Kernel Pow::forward(const Binding& binding) const {
  return with_exponent(*this,
                       [&](const auto& op) { return elementwise::forward(op, binding); });
}
Kernel Pow::backward(const Binding& binding) const {
  return with_exponent(*this,
                       [&](const auto& op) { return elementwise::backward(op, binding); });
}

}  // namespace qtape
