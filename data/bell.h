// Approximately normal random numbers with equal bits on every machine.
#pragma once

#include <cstdint>
#include <numbers>

namespace qtape::data {

/// Bell-shaped random number in [-2 sqrt 3, 2 sqrt 3] with mean 0 and standard deviation 1: the
/// sum of four uniform numbers of 16 bits each.
inline double bell(uint64_t bits) {
  double sum = 0;
  for (int part = 0; part < 4; ++part) {
    sum += static_cast<double>((bits >> (16 * part)) & 0xffff);
  }
  return (sum - 2 * 65535.0) * (std::numbers::sqrt3 / 65536);
}

}  // namespace qtape::data
