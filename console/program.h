// The frame of a program: its errors as lines, its exit codes, its standard streams.
#pragma once

#include <exception>
#include <functional>
#include <string>
#include <type_traits>

/// What programs say and hear: standard streams, progress, signals, exit codes.
namespace qtape::console {

namespace detail {
int run_program(const std::string& name, const std::function<int()>& body);
}  // namespace detail

/// Prints what went wrong as one line on standard error, `name: what went wrong`. Allocates
/// nothing, so that memory that ran out is reported, too. The exit code: 2 for ArgumentError,
/// 128 + its signal for Interrupted, 1 for all else.
int report_failure(const char* name, const std::exception& error);

/// Prepares the standard streams and calls `body`, which gives the exit code, or nothing for 0.
/// What it throws goes to report_failure, also where standard output could not be written.
template <class Body>
int run_program(const std::string& name, const Body& body) {
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
