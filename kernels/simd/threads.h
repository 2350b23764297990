// Parallel loops: work is divided into shares that idle threads take one after another.
//
// Work is divided by size, never by the thread that computes it, so a block has the same bits
// whichever thread runs it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "qtape/core/float_environment.h"
#include "qtape/core/thread_count.h"

namespace qtape::kernels {

/// While it exists, this thread has the settings on which bits depend: a FloatEnvironment, and
/// libraries that it calls (oneDNN) run in this thread alone. Their own parallelism would make
/// bits depend on the number of threads; qtape divides the work itself. The destructor restores
/// the previous settings.
class ComputingThread {
 public:
  ComputingThread();
  ComputingThread(const ComputingThread&) = delete;
  ComputingThread& operator=(const ComputingThread&) = delete;
  ~ComputingThread();

 private:
  FloatEnvironment floats_;
  int before_;
};

/// Minimum number of elements per thread for pointwise work: with less than twice this number,
/// a parallel region costs more than it saves.
inline constexpr int64_t pointwise_grain = 16384;

/// Minimum number of bytes per thread for copies, which are bound by memory.
inline constexpr int64_t copy_grain = int64_t{1} << 18;

/// Average number of shares per thread: a thread that the system preempts delays no more than
/// one of them.
inline constexpr int64_t shares_per_thread = 2;

/// Calls `share(context, i)` for each i in [0, count) in up to `threads` threads, including the
/// calling one. Other threads sleep when idle. The calling thread runs all shares that no other
/// thread has started, so a busy machine delays it by at most one share.
void run_shares(int64_t threads, int64_t count, void (*share)(const void* context, int64_t i),
                const void* context);

/// Calls `body(begin, end)` on consecutive ranges of [0, n) that are multiples of `block`
/// (except the last), in parallel if n is at least two `grain`s. `body` must not throw. The
/// ranges may depend on the thread count, so the result of `body` for an element must not
/// depend on its range.
template <class Body>
void parallel_for(int threads, int64_t n, int64_t block, int64_t grain, const Body& body) {
  const int64_t blocks = (n + block - 1) / block;
  const int64_t grains = std::min(n / std::max<int64_t>(grain, 1), blocks);
  const int64_t useful = std::min<int64_t>(threads, grains);
  if (useful <= 1) {
    if (n > 0) body(int64_t{0}, n);
    return;
  }
  const int64_t shares = std::min(grains, shares_per_thread * useful);
  const auto share = [&](int64_t i) {
    const int64_t begin = blocks * i / shares * block;
    const int64_t end = std::min(n, blocks * (i + 1) / shares * block);
    if (begin < end) body(begin, end);
  };
  run_shares(
      useful, shares,
      [](const void* context, int64_t i) {
        (*static_cast<const decltype(share)*>(context))(i);
      },
      &share);
}

}  // namespace qtape::kernels
