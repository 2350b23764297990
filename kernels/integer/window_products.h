// Sums of products of codes and weights over windows, in registers: exact in 32 bits for all
// codes and weights.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "qtape/core/aligned.h"

namespace qtape::kernels {

/// y [points, n] = x w^T of windows x, each of which is runs of consecutive codes in memory.
/// Sums of more than 65,000 terms may leave 32 bits; they wrap around then. `Code` is uint8_t
/// for CodeProducts::Bytes and int16_t for CodeProducts::Words; codes are in [-255, 255].
template <class C>
class WindowProducts {
 public:
  using Code = C;

  /// Run i begins `runs[i]` codes behind the begin of its window; all have `length` codes, at
  /// least 1.
  WindowProducts(int64_t n, std::span<const int64_t> runs, int64_t length);

  /// Takes over w [n, terms], or [terms, n] unless `rows`; the terms of run after run.
  void load(const int8_t* w, bool rows, int threads);
  /// `points` windows, the first at x and each `step` codes behind the one before. Up to
  /// `slack` codes behind a run are read, whatever they are.
  void run(const Code* x, int64_t step, int64_t points, int32_t* y) const;

  static constexpr int64_t slack = 4 / sizeof(Code) - 1;

 private:
  int64_t n_;
  int64_t length_;
  int64_t groups_;  // of terms of a run that are multiplied at once
  std::vector<int64_t> runs_;
  AlignedBuffer weights_;  // [blocks of outputs] [runs] [groups] [outputs of a block] [terms]
};

}  // namespace qtape::kernels
