#include "qtape/ops/core/threads.h"

namespace qtape {

int default_threads() { return omp_get_num_procs(); }

void use_threads(int threads) {
  if (omp_get_max_threads() != threads) omp_set_num_threads(threads);
}

}  // namespace qtape
