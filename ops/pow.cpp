#include "qtape/ops/pow.h"

#include <cmath>

#include "qtape/ops/families/elementwise_kernels.h"

namespace qtape {
namespace {

/// True unless the power is a product, a square root or the reciprocal of one.
bool is_fractional(double exponent) {
  return std::floor(exponent) != exponent && std::fabs(exponent) != 0.5;
}

/// A Pow of a fractional exponent: loops that test the exponent for each element do not
/// vectorise where it is.
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

}  // namespace

TensorType Pow::infer(Inputs inputs) const {
  const TensorType y = elementwise::infer(inputs);
  check(std::isfinite(exponent), "exponent must be finite, got {}", exponent);
  return y;
}
Kernel Pow::forward(const Binding& binding) const {
  return is_fractional(exponent) ? elementwise::forward(FractionalPow{exponent}, binding)
                                 : elementwise::forward(*this, binding);
}
Kernel Pow::backward(const Binding& binding) const {
  return is_fractional(exponent - 1.0) ? elementwise::backward(FractionalPow{exponent}, binding)
                                       : elementwise::backward(*this, binding);
}

}  // namespace qtape
