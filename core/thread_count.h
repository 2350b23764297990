// Default thread count: the part of threads.h that public headers need.
#pragma once

namespace qtape {

/// OMP_NUM_THREADS if it is set, otherwise the number of processors that affinity and CPU
/// quotas allow; 1 to 1024.
int default_threads();

}  // namespace qtape
