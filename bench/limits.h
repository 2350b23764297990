// Peak performance of the machine, measured with libraries alone: the reference for all rows.
#pragma once

#include <tuple>

#include "qtape/core/fields.h"

namespace qtape::bench {

struct Limits {
  double copy = 0;  ///< bytes read and written per second by a copy larger than all caches
  double f32 = 0;   ///< f32 multiplications and additions per second in oneDNN's products
  double bf16 = 0;  ///< bf16 multiplications and additions per second; 0 if the machine has
                    ///< none
  double int8 = 0;  ///< multiplications and additions of 8-bit codes per second; 0 if oneDNN
                    ///< has none with 32-bit accumulation

  static constexpr auto fields() {
    return std::tuple{field("copy", &Limits::copy, "bytes per second"),
                      field("f32", &Limits::f32, "operations per second"),
                      field("bf16", &Limits::bf16, "operations per second"),
                      field("int8", &Limits::int8, "operations per second")};
  }
};

/// Returns the best of `rounds` measurements with this number of threads.
Limits measure_limits(int threads, int rounds = 5);

}  // namespace qtape::bench
