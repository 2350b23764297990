#include "qtape/tflite/means.h"

#include <bit>

#include "qtape/core/error.h"
#include "qtape/kernels/quantize/requantize.h"

namespace qtape::tflite {

void check_mean(int64_t n, double x_scale, double y_scale) {
  check(n > 0 && std::has_single_bit(static_cast<uint64_t>(n)),
        "is a mean of {} codes, which TensorFlow Lite Micro rounds otherwise; expected a power "
        "of two",
        n);
  const kernels::Multiplier by =
      kernels::multiplier_of(x_scale / static_cast<double>(n), y_scale);
  check(by.mantissa != 0, "is a mean with the factor {}, expected at least 2^-32",
        x_scale / static_cast<double>(n) / y_scale);
}

}  // namespace qtape::tflite
