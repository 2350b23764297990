// Threads: the only file that speaks OpenMP.
//
// Work is always cut by size and never by thread count, so the same block computes the same
// bits whichever thread runs it.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>

#include "qtape/ops/core/thread_count.h"

namespace qtape {

/// Elements that one thread should at least have: below two of these a parallel region
/// (0.5 us) costs more than it saves for pointwise work.
inline constexpr int64_t pointwise_grain = 16384;

/// Bytes that one thread should at least have to copy: copies are bound by memory.
inline constexpr int64_t copy_grain = int64_t{1} << 18;

/// Calls `body(begin, end)` on consecutive ranges of [0, n) that are multiples of `block`
/// (but for the last), in parallel when there is work of at least two `grain`s. `body` must not
/// throw. The ranges may depend on the thread count: the result of `body` on an element must
/// not depend on the range it came in.
template <class Body>
void parallel_for(int threads, int64_t n, int64_t block, int64_t grain, const Body& body) {
  const int64_t blocks = (n + block - 1) / block;
  const int64_t useful = std::min<int64_t>({threads, n / std::max<int64_t>(grain, 1), blocks});
  if (useful <= 1) {
    if (n > 0) body(int64_t{0}, n);
    return;
  }
#pragma omp parallel for num_threads(static_cast <int>(useful)) schedule(static)
  for (int64_t t = 0; t < useful; ++t) {
    const int64_t begin = blocks * t / useful * block;
    const int64_t end = std::min(n, blocks * (t + 1) / useful * block);
    if (begin < end) body(begin, end);
  }
}

}  // namespace qtape
