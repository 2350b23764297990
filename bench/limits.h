// What the machine can do at best, measured with libraries alone: the yardstick of every row.
#pragma once

#include <tuple>

#include "qtape/core/fields.h"

namespace qtape::bench {

struct Limits {
  double copy = 0;  ///< bytes read and written per second by a copy beyond all caches
  double f32 = 0;   ///< multiplications and additions of f32 per second, oneDNN's products
  double bf16 = 0;  ///< the same of bf16; 0 where the machine has none
  double int8 = 0;  ///< the same of 8-bit codes; 0 where oneDNN has none that add in 32 bits

  static constexpr auto fields() {
    return std::tuple{field("copy", &Limits::copy, "bytes per second"),
                      field("f32", &Limits::f32, "operations per second"),
                      field("bf16", &Limits::bf16, "operations per second"),
                      field("int8", &Limits::int8, "operations per second")};
  }
};

/// The best of `rounds`, with so many threads.
Limits measure_limits(int threads, int rounds = 5);

}  // namespace qtape::bench
