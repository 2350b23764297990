#include "qtape/ops/core/threads.h"

namespace qtape {

int default_threads() { return omp_get_num_procs(); }

SerialLibraries::SerialLibraries() : before_(omp_get_max_threads()) {
  if (before_ != 1) omp_set_num_threads(1);
}

SerialLibraries::~SerialLibraries() {
  if (before_ != 1) omp_set_num_threads(before_);
}

}  // namespace qtape
