// How many threads: the part of threads.h that public headers need.
#pragma once

namespace qtape {

/// OMP_NUM_THREADS where it is set, else what affinity and CPU quotas leave us; 1 to 1024.
int default_threads();

/// While it lives, libraries that the calling thread calls (oneDNN) run in that thread alone.
/// Their own ways to share work would make bits depend on the number of threads; ours do not,
/// and give each of our threads a part. Restores what was set before.
class SerialLibraries {
 public:
  SerialLibraries();
  SerialLibraries(const SerialLibraries&) = delete;
  SerialLibraries& operator=(const SerialLibraries&) = delete;
  ~SerialLibraries();

 private:
  int before_;
};

}  // namespace qtape
