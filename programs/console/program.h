// Entry point of programs: one-line errors, exit codes and standard streams.
#pragma once

#include <exception>
#include <functional>
#include <type_traits>

/// Interaction of programs with their environment: standard streams, progress, signals, exit
/// codes.
namespace qtape::console {

namespace detail {
int run_program(const char* name, const std::function<int()>& body);
}  // namespace detail

/// Prints the error as one line on standard error: `name: message`. Allocates nothing, so that
/// out-of-memory errors are reported as well. Returns the exit code: 2 for ArgumentError, 128 +
/// the signal for Interrupted, 1 otherwise.
int report_failure(const char* name, const std::exception& error);

/// Prepares the standard streams and calls `body`, which returns the exit code, or void for 0.
/// Exceptions, including failed writes to standard output, are passed to report_failure.
template <class Body>
int run_program(const char* name, const Body& body) {
  return detail::run_program(name, [&] {
    if constexpr (std::is_void_v<std::invoke_result_t<Body>>) {
      body();
      return 0;
    } else {
      return body();
    }
  });
}

}  // namespace qtape::console
