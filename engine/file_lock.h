// A lock that says: this run writes that file.
#pragma once

#include <string>

namespace qtape {

/// Holds `<path>.lock` while it lives, then removes it. The system lets go of it when the
/// process ends, however it ends, so what a kill leaves behind locks nothing. Devices, pipes
/// and empty paths need no lock; file systems without locks give none.
class FileLock {
 public:
  /// Throws IoError that names the other run when one holds the lock.
  explicit FileLock(const std::string& path);
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;
  ~FileLock();

 private:
  bool lock(const std::string& path);

  std::string name_;
  int file_ = -1;
};

}  // namespace qtape
