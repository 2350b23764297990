// Fuzzed functions: each takes any bytes, which it accepts or refuses by an Error.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "qtape/core/error.h"

namespace qtape::fuzz {

/// A difference, or an error for bytes that the library must accept.
using Finding = std::logic_error;

/// A function of arbitrary bytes. Each source of tests/fuzz/targets defines one, which
/// registers itself; scripts/fuzz and tests/fuzz/seeds_test.cpp run all of them.
class Target {
 public:
  /// `source` is the name of the source. Errors that `read` throws are expected; any other
  /// exception is a finding. `valid` returns valid inputs.
  Target(std::string_view source, void (*read)(std::string_view bytes),
         std::vector<std::string> (*valid)())
      : name(source), seeds(valid), read_(read) {
    all().push_back(this);
  }
  Target(const Target&) = delete;
  Target& operator=(const Target&) = delete;

  /// Returns the targets of this program.
  static std::vector<const Target*>& all() {
    static std::vector<const Target*> targets;
    return targets;
  }

  /// Returns the text of the Error by which the bytes were refused; empty if accepted.
  std::string run(std::string_view bytes) const {
    try {
      read_(bytes);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  const std::string_view name;
  std::vector<std::string> (*const seeds)();

 private:
  void (*read_)(std::string_view bytes);
};

/// Ends a target with a finding unless `equal` is true.
inline void require_equal(bool equal) {
  if (!equal) throw Finding("a difference");
}

/// Returns the result of `read()`, in which an Error is a finding: it reads what the library
/// has written.
template <class Read>
auto accepted(const Read& read) {
  try {
    return read();
  } catch (const Error& error) {
    throw Finding(error.what());
  }
}

}  // namespace qtape::fuzz
