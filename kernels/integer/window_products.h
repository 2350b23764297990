// Sums of products of codes and weights over windows, accumulated in registers: exact in 32
// bits for all codes and weights.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "qtape/core/aligned.h"

namespace qtape::kernels {

/// y [points, n] = x w^T for windows x, each of which consists of runs of consecutive codes in
/// memory. `Code` is ByteCode for CodeProducts::Bytes and int16_t for CodeProducts::Words;
/// codes are in [-255, 255]. Sums of more than 65,000 terms may overflow 32 bits and then wrap
/// around.
template <class C>
class WindowProducts {
 public:
  using Code = C;

  /// Run i starts `runs[i]` codes after the start of its window. All runs have `length` codes,
  /// at least 1.
  WindowProducts(int64_t n, std::span<const int64_t> runs, int64_t length);

  /// Loads the weights w [n, terms], or [terms, n] if `rows` is false, with the terms in order
  /// of runs.
  void load(const int8_t* w, bool rows, int threads);
  /// Computes `points` windows. The first starts at x, each further one `step` codes after the
  /// preceding one. Reads up to `slack` codes after a run; their values do not matter.
  void run(const Code* x, int64_t step, int64_t points, int32_t* y) const;

  static constexpr int64_t slack = 4 / sizeof(Code) - 1;

 private:
  int64_t n_;
  int64_t length_;
  int64_t groups_;  // groups of terms per run; the terms of a group are multiplied at once
  std::vector<int64_t> runs_;
  AlignedBuffer weights_;  // [blocks of outputs] [runs] [groups] [outputs of a block] [terms]
};

}  // namespace qtape::kernels
