// What the weights of each output sum up to: for zero points and for the choice of a path.
#pragma once

#include <cstdint>
#include <span>

namespace qtape {

/// Of one output.
struct WeightSums {
  int64_t sum = 0;
  int64_t magnitude = 0;  ///< of the magnitudes
};

/// Sums of up to 2^23 weights each.
class WeightSummation {
 public:
  WeightSummation();
  /// Of w [n, k], or [k, n] unless `rows`; `sums` has n.
  void operator()(const int8_t* w, int64_t k, bool rows, int threads,
                  std::span<WeightSums> sums) const;

 private:
  using Loop = void (*)(const int8_t*, int64_t, WeightSums*);
  Loop by_row_;
  Loop by_column_;
};

/// What is added to the products of each output: its bias, of which there may be none, less
/// `zero` for each of its weights.
void take_offsets(std::span<const int32_t> bias, std::span<const WeightSums> sums, int64_t zero,
                  std::span<int64_t> offsets);

}  // namespace qtape
