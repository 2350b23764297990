#include "qtape/ops/core/threads.h"

namespace qtape {

SerialLibraries::SerialLibraries() : before_(omp_get_max_threads()) {
  if (before_ != 1) omp_set_num_threads(1);
}

SerialLibraries::~SerialLibraries() {
  if (before_ != 1) omp_set_num_threads(before_);
}

}  // namespace qtape
