#include "qtape/kernels/simd/threads.h"

#include <omp.h>
#include <oneapi/tbb/task_group.h>

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

}  // namespace

ComputingThread::ComputingThread() : before_(omp_get_max_threads()) {
  if (before_ != 1) omp_set_num_threads(1);
}

ComputingThread::~ComputingThread() {
  if (before_ != 1) omp_set_num_threads(before_);
}

void run_shares(int64_t threads, int64_t count, void (*share)(const void* context, int64_t i),
                const void* context) {
  std::atomic<int64_t> next = 0;
  const auto work = [&] {
    const ComputingThread serial;
    for (int64_t i = next++; i < count; i = next++) share(context, i);
  };
  TaskGroup others;
  for (int64_t t = 1; t < threads; ++t) others.run(work);
  work();
  others.wait();
}

}  // namespace qtape::kernels
