// Error types. Every failure that a caller can cause is an exception derived from Error.
#pragma once

#include <fmt/core.h>

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace qtape {

/// Base class of all qtape exceptions. `what()` is one line that states the location, the
/// expected value and the actual value.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A graph that cannot be built, bound or run: wrong attributes, shapes, dtypes, operands or
/// data.
class GraphError : public Error {
 public:
  using Error::Error;
};

/// A graph that cannot be planned: roots or outputs that do not exist or cannot be
/// differentiated.
class PlanError : public Error {
 public:
  using Error::Error;
};

/// A file whose content violates its format. The message starts with a JSON pointer where one
/// exists.
class FormatError : public Error {
 public:
  using Error::Error;
};

/// A failed file operation: missing file, unwritable path, full disk. The message starts with
/// the path.
class IoError : public Error {
 public:
  using Error::Error;
};

/// A value outside its documented range: optimizer settings, schedules, program arguments.
class ArgumentError : public Error {
 public:
  using Error::Error;
};

/// Throws `E` with a formatted message: `fail<IoError>("{}: cannot open: {}", path, reason)`.
template <class E, class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> text, Args&&... args) {
  throw E(fmt::format(text, std::forward<Args>(args)...));
}

/// Throws `E` unless `condition` holds.
template <class E, class... Args>
void require(bool condition, fmt::format_string<Args...> text, Args&&... args) {
  if (!condition) fail<E>(text, std::forward<Args>(args)...);
}

/// Throws GraphError unless `condition` holds. Messages are lower case and end with the actual
/// value.
template <class... Args>
void check(bool condition, fmt::format_string<Args...> text, Args&&... args) {
  require<GraphError>(condition, text, std::forward<Args>(args)...);
}

/// Returns the result of `body`. If `body` throws an `E`, rethrows it with `place`, a file
/// path, prepended to the message.
template <class E, class Body>
auto naming(std::string_view place, const Body& body) {
  try {
    return body();
  } catch (const E& error) {
    fail<E>("{}: {}", place, error.what());
  }
}

}  // namespace qtape
