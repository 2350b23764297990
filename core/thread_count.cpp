#include "qtape/core/thread_count.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <thread>

#include "qtape/core/process_limits.h"

namespace qtape {
namespace {

constexpr int max_threads = 1024;

/// Number of processors on which the scheduler may run this process.
int processors() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (::sched_getaffinity(0, sizeof allowed, &allowed) == 0) return CPU_COUNT(&allowed);
  return static_cast<int>(std::thread::hardware_concurrency());
}

int find_default() {
  if (const auto asked = threads_asked(std::getenv("OMP_NUM_THREADS"))) {
    return std::min(*asked, max_threads);
  }
  // A fraction of a processor counts as one thread: a quota of 1.5 gives two.
  const double quota = std::ceil(cpu_quota("").value_or(max_threads));
  return static_cast<int>(
      std::clamp(quota, 1.0, static_cast<double>(std::clamp(processors(), 1, max_threads))));
}

}  // namespace

int default_threads() {
  static const int threads = find_default();
  return threads;
}

}  // namespace qtape
