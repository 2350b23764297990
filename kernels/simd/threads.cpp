#include "qtape/kernels/simd/threads.h"

#include <omp.h>
#include <oneapi/tbb/task_group.h>

#include <atomic>

namespace qtape::kernels {

SerialLibraries::SerialLibraries() : before_(omp_get_max_threads()) {
  if (before_ != 1) omp_set_num_threads(1);
}

SerialLibraries::~SerialLibraries() {
  if (before_ != 1) omp_set_num_threads(before_);
}

void run_shares(int64_t threads, int64_t count, void (*share)(const void* context, int64_t i),
                const void* context) {
  std::atomic<int64_t> next = 0;
  const auto work = [&] {
    const SerialLibraries serial;
    for (int64_t i = next++; i < count; i = next++) share(context, i);
  };
  tbb::task_group others;
  for (int64_t t = 1; t < threads; ++t) others.run(work);
  work();
  others.wait();
}

}  // namespace qtape::kernels
