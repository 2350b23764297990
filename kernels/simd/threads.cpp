#include "qtape/kernels/simd/threads.h"

#include <omp.h>
#include <oneapi/tbb/task_group.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#if defined(__SANITIZE_THREAD__)
#define QTAPE_THREAD_SANITIZER 1
#elif defined(__has_feature)
#define QTAPE_THREAD_SANITIZER __has_feature(thread_sanitizer)
#else
#define QTAPE_THREAD_SANITIZER 0
#endif

namespace qtape::kernels {
namespace {

#if QTAPE_THREAD_SANITIZER
/// New threads instead of those of TBB, which is not instrumented: the sanitizer would not see
/// how it passes work from one thread to another.
class TaskGroup {
 public:
  template <class Work>
  void run(const Work& work) {
    threads_.emplace_back(work);
  }
  void wait() { threads_.clear(); }

 private:
  std::vector<std::jthread> threads_;
};
#else
using TaskGroup = tbb::task_group;
#endif

/// Average number of shares per thread: a thread that the system preempts delays no more than
/// one of them.
constexpr int64_t shares_per_thread = 2;

/// Calls `share(i)` for each i in [0, count) in up to `threads` threads, including the calling
/// one. Other threads sleep when idle. The calling thread runs all shares that no other thread
/// has started, so a busy machine delays it by at most one share.
template <class Share>
void run_shares(int64_t threads, int64_t count, const Share& share) {
  std::atomic<int64_t> next = 0;
  const auto work = [&] {
    const ComputingThread serial;
    for (int64_t i = next++; i < count; i = next++) share(i);
  };
  TaskGroup others;
  for (int64_t t = 1; t < threads; ++t) others.run(work);
  work();
  others.wait();
}

}  // namespace

ComputingThread::ComputingThread() : before_(omp_get_max_threads()) {
  if (before_ != 1) omp_set_num_threads(1);
}

ComputingThread::~ComputingThread() {
  if (before_ != 1) omp_set_num_threads(before_);
}

void run_ranges(int threads, int64_t n, int64_t block, int64_t grain,
                void (*range)(const void* body, int64_t begin, int64_t end), const void* body) {
  const int64_t blocks = (n + block - 1) / block;
  const int64_t grains = std::min(n / std::max<int64_t>(grain, 1), blocks);
  const int64_t useful = std::min<int64_t>(threads, grains);
  if (useful <= 1) {
    if (n > 0) range(body, 0, n);
    return;
  }
  const int64_t shares = std::min(grains, shares_per_thread * useful);
  run_shares(useful, shares, [&](int64_t i) {
    const int64_t begin = blocks * i / shares * block;
    const int64_t end = std::min(n, blocks * (i + 1) / shares * block);
    if (begin < end) range(body, begin, end);
  });
}

}  // namespace qtape::kernels
