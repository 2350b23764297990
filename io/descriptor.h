// An open file, and the error of a system call.
#pragma once

#include <unistd.h>

#include <string_view>
#include <system_error>
#include <utility>

#include "qtape/core/error.h"

namespace qtape {

/// Throws the IoError for a failed system call: `error` is its errno.
[[noreturn]] inline void fail_io(std::string_view path, std::string_view action, int error) {
  fail<IoError>("{}: cannot {}: {}", path, action, std::generic_category().message(error));
}

/// A file descriptor that closes itself.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor() { close(); }

  int get() const { return fd_; }
  /// Closes immediately; returns true on success.
  bool close() {
    const int fd = std::exchange(fd_, -1);
    return fd < 0 || ::close(fd) == 0;
  }

 private:
  int fd_;
};

}  // namespace qtape
