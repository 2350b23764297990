// The frame of a program: its errors as lines, its exit codes, its standard streams.
#pragma once

#include <functional>
#include <string>
#include <type_traits>

/// What programs say and hear: standard streams, progress, signals, exit codes.
namespace qtape::console {

namespace detail {
int run_program(const std::string& name, const std::function<int()>& body);
}  // namespace detail

/// Prepares the standard streams and calls `body`, which gives the exit code, or nothing for 0.
/// What it throws becomes one line on standard error, `name: what went wrong`, and the exit
/// code 2 for ArgumentError, 128 + its signal for Interrupted and 1 for all else, also where
/// standard output could not be written.
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
