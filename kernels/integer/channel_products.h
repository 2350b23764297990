// Sums of products of codes and weights over windows, each channel by itself: depthwise
// convolutions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "qtape/core/aligned.h"

namespace qtape::kernels {

/// y [points, n] of windows x [taps, n]: y[p, c] = the sum over taps of x[p, t, c] w[c, t]. For
/// processors where code_products() is not None. Sums of more than 65,000 taps may leave 32
/// bits; they wrap around then. Codes are in [-255, 255].
class ChannelProducts {
 public:
  using Code = int16_t;

  /// The n channels of tap i begin `taps[i]` codes behind the begin of their window. `length`
  /// is 1, as every tap is a run by itself.
  ChannelProducts(int64_t n, std::span<const int64_t> taps, int64_t length);

  /// Takes over w [n, taps], or [taps, n] unless `rows`.
  void load(const int8_t* w, bool rows, int threads);
  /// `points` windows, the first at x and each `step` codes behind the one before. Up to
  /// `slack` codes behind the channels of a tap are read, whatever they are.
  void run(const Code* x, int64_t step, int64_t points, int32_t* y) const;

  static constexpr int64_t slack = 15;

 private:
  int64_t n_;
  std::vector<int64_t> taps_;  // an even number of them
  int64_t given_;              // taps
  AlignedBuffer weights_;      // s16 [blocks of 16 channels] [pairs of taps] [16 channels] [2]
};

}  // namespace qtape::kernels
