// Parallel loops: work is divided into shares that idle threads take one after another.
//
// Work is divided by size, never by the thread that computes it, so a block has the same bits
// whichever thread runs it.
#pragma once

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

/// Calls `range(body, begin, end)` as parallel_for calls its body.
void run_ranges(int threads, int64_t n, int64_t block, int64_t grain,
                void (*range)(const void* body, int64_t begin, int64_t end), const void* body);

/// Calls `body(begin, end)` on consecutive ranges of [0, n) that are multiples of `block`
/// (except the last), in up to `threads` threads if n is at least two `grain`s. `body` must not
/// throw. The ranges may depend on the thread count, so the result of `body` for an element
/// must not depend on its range.
template <class Body>
void parallel_for(int threads, int64_t n, int64_t block, int64_t grain, const Body& body) {
  run_ranges(
      threads, n, block, grain,
      [](const void* context, int64_t begin, int64_t end) {
        (*static_cast<const Body*>(context))(begin, end);
      },
      &body);
}

}  // namespace qtape::kernels
