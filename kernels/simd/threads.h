// Threads: work cut into shares that idle threads take one after another.
//
// Work is always cut by size and never by who computes it, so the same block has the same bits
// whichever thread runs it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "qtape/core/thread_count.h"

namespace qtape::kernels {

/// While it lives, libraries that the calling thread calls (oneDNN) run in that thread alone.
/// Their own ways to share work would make bits depend on the number of threads; ours do not,
/// and give each of our threads a part. Restores what was set before.
class SerialLibraries {
 public:
  SerialLibraries();
  SerialLibraries(const SerialLibraries&) = delete;
  SerialLibraries& operator=(const SerialLibraries&) = delete;
  ~SerialLibraries();

 private:
  int before_;
};

/// Elements that one thread should at least have: below two of these a parallel region costs
/// more than it saves for pointwise work.
inline constexpr int64_t pointwise_grain = 16384;

/// Bytes that one thread should at least have to copy: copies are bound by memory.
inline constexpr int64_t copy_grain = int64_t{1} << 18;

/// Shares that each thread has on average: a thread that the system takes away keeps back no
/// more than one of them.
inline constexpr int64_t shares_per_thread = 2;

/// Calls `share(context, i)` for each i in [0, count), in up to `threads` threads, the calling
/// one among them. The others sleep when there is nothing to do, and whatever they have not
/// begun the calling thread does itself, so a busy machine holds it up by one share at most.
void run_shares(int64_t threads, int64_t count, void (*share)(const void* context, int64_t i),
                const void* context);

/// Calls `body(begin, end)` on consecutive ranges of [0, n) that are multiples of `block`
/// (but for the last), in parallel when there is work of at least two `grain`s. `body` must not
/// throw. The ranges may depend on the thread count: the result of `body` on an element must
/// not depend on the range it came in.
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
