// Random numbers of generated data.
#pragma once

#include <cstddef>
#include <cstdint>

#include "qtape/core/random.h"
#include "qtape/data/bell.h"

namespace qtape::data {

/// A sequence of random numbers.
class RandomNumbers {
 public:
  RandomNumbers(uint64_t seed, uint64_t stream) : random_(seed, stream) {}

  /// Uniform in [low, high).
  double within(double low, double high) {
    return low + (high - low) * random_.uniform(count_++);
  }
  /// Uniform in 0..n-1.
  size_t below(size_t n) { return static_cast<size_t>(random_.below(count_++, n)); }
  /// Bell-shaped, of mean 0 and standard deviation 1.
  double bell() { return data::bell(random_.bits(count_++)); }
  /// Bell-shaped in (-3 deviation, 3 deviation): a sum of three uniforms.
  double three_uniforms(double deviation) {
    // One statement per draw: the evaluation order of operands is unspecified, and the sum
    // rounds.
    double sum = random_.uniform(count_++);
    sum += random_.uniform(count_++);
    sum += random_.uniform(count_++);
    return deviation * (2.0 * sum - 3.0);
  }

 private:
  Random random_;
  uint64_t count_ = 0;
};

}  // namespace qtape::data
