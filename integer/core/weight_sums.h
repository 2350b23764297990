// Sums of the weights of each output, needed for zero points and for the choice of a path.
#pragma once

#include <cstdint>
#include <span>

namespace qtape {

/// Sums of the weights of one output.
struct WeightSums {
  int64_t sum = 0;
  int64_t magnitude = 0;  ///< sum of the magnitudes
};

/// Computes WeightSums, of up to 2^23 weights each.
class WeightSummation {
 public:
  WeightSummation();
  /// Sums w [n, k], or [k, n] unless `rows`; `sums` has n elements.
  void operator()(const int8_t* w, int64_t k, bool rows, int threads,
                  std::span<WeightSums> sums) const;

 private:
  using Loop = void (*)(const int8_t*, int64_t, WeightSums*);
  Loop by_row_;
  Loop by_column_;
};

/// Computes the offset that is added to the products of each output: its bias, if there is any,
/// minus `zero` times the sum of its weights.
void take_offsets(std::span<const int32_t> bias, std::span<const WeightSums> sums, int64_t zero,
                  std::span<int64_t> offsets);

}  // namespace qtape
