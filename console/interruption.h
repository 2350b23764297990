// Ctrl-C and SIGTERM: a run ends after the step that it is in.
#pragma once

#include <csignal>
#include <cstddef>
#include <vector>

#include "qtape/core/error.h"

namespace qtape::console {

/// A run that a signal ended. `what()` says what is left of it.
class Interrupted : public Error {
 public:
  Interrupted(int signal, const std::string& text) : Error(text), signal_(signal) {}
  int signal() const { return signal_; }

 private:
  int signal_;
};

/// While it lives, SIGINT and SIGTERM are only kept; a second one of the same kind ends the
/// program at once. Signals that were ignored before, as under nohup, stay so. One at a time,
/// in the main thread, which is the one that the system interrupts.
///
/// Handlers have a stack of their own: oneDNN's AVX-512 products use the stack pointer as a
/// register like any other, and a handler's frame would land among their data.
class Interruption {
 public:
  Interruption();
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;
  ~Interruption();

  /// SIGINT or SIGTERM, or 0 while none has come.
  int signal() const;

 private:
  std::vector<std::byte> stack_;
  stack_t stack_before_{};
  struct sigaction interrupt_ {};
  struct sigaction terminate_ {};
};

/// "SIGINT" or "SIGTERM".
const char* signal_name(int signal);

}  // namespace qtape::console
