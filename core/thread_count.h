// How many threads: the part of threads.h that public headers need.
#pragma once

namespace qtape {

/// OMP_NUM_THREADS where it is set, else what affinity and CPU quotas leave us; 1 to 1024.
int default_threads();

}  // namespace qtape
