// A lock on a file that a run writes.
#pragma once

#include <string>

#include "qtape/core/error.h"

namespace qtape {

/// The error for a file that another run has locked.
class FileInUse : public IoError {
 public:
  using IoError::IoError;
};

/// Holds a lock on `<path>.lock` during its lifetime and then removes that file. The operating
/// system releases the lock when the process ends, even if it is killed, so a stale lock file
/// locks nothing. Devices, pipes and empty paths are not locked, nor are files on file systems
/// without locks.
class FileLock {
 public:
  /// Throws FileInUse, which names the other run, if that holds the lock, and IoError.
  explicit FileLock(const std::string& path);
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;
  ~FileLock();

 private:
  bool lock(const std::string& path, const std::string& holder);

  std::string name_;
  int file_ = -1;
};

}  // namespace qtape
