// Depthwise convolutions of integer codes: sums of products of codes and weights over windows,
// separately for each channel.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "qtape/core/aligned.h"

namespace qtape::kernels {

/// y [points, n] of windows x [taps, n]: y[p, c] = sum over t of x[p, t, c] w[c, t]. Requires
/// that code_products() is not None. Codes are in [-255, 255]. Sums of more than 65,000 taps
/// may overflow 32 bits and then wrap around.
class ChannelProducts {
 public:
  using Code = int16_t;

  /// The n channels of tap i start `taps[i]` codes after the start of their window. Throws
  /// ArgumentError unless `length` is 1, because each tap is a run by itself.
  ChannelProducts(int64_t n, std::span<const int64_t> taps, int64_t length);

  /// Loads the weights w [n, taps], or [taps, n] if `rows` is false.
  void load(const int8_t* w, bool rows, int threads);
  /// Computes `points` windows. The first starts at x, each further one `step` codes after the
  /// preceding one. Reads up to `slack` codes after the channels of a tap; their values do not
  /// matter.
  void run(const Code* x, int64_t step, int64_t points, int32_t* y) const;

  static constexpr int64_t slack = 15;

 private:
  int64_t n_;
  std::vector<int64_t> taps_;  // padded to an even number
  int64_t given_;              // number of taps without padding
  AlignedBuffer weights_;      // s16 [blocks of 16 channels] [pairs of taps] [16 channels] [2]
};

}  // namespace qtape::kernels
