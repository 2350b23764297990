// Ctrl-C and SIGTERM: a run ends after its current step.
#pragma once

#include <csignal>
#include <cstddef>
#include <vector>

#include "qtape/core/error.h"

namespace qtape::console {

/// Thrown by a run that was ended by a signal. `what()` states the remaining results.
class Interrupted : public Error {
 public:
  Interrupted(int signal, const std::string& text) : Error(text), signal_(signal) {}
  int signal() const { return signal_; }

 private:
  int signal_;
};

/// During its lifetime, SIGINT and SIGTERM are only recorded; a second signal of the same kind
/// ends the program immediately. Signals that were ignored before, as under nohup, remain
/// ignored. Objects of several threads, each destroyed in its own, all report a signal; the
/// last one restores the handlers that the first one replaced.
///
/// Handlers run on a separate stack, see core/signal_stack.h.
class Interruption {
 public:
  Interruption();
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;
  ~Interruption();

  /// SIGINT or SIGTERM, or 0 if none was received.
  int signal() const;

 private:
  std::vector<std::byte> stack_;
  stack_t stack_before_{};
};

/// "SIGINT" or "SIGTERM".
const char* signal_name(int signal);

}  // namespace qtape::console
