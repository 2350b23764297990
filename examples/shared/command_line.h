// Command lines of programs: spellings and ranges of options, and how errors become exit codes.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

#include "qtape/core/enum_names.h"

namespace qtape::examples {

/// Accepts the spellings of the enumeration E in any case of letters. As a transform, not as a
/// check: only so the value gets the spelling that from_string knows.
template <class E>
CLI::IsMember spelling_of() {
  return CLI::IsMember(std::vector<std::string>(enum_names<E>.begin(), enum_names<E>.end()),
                       CLI::ignore_case);
}

/// Accepts `low` to `high`: "--threads: expected 1 to 1024, got 0".
template <class T>
CLI::Validator range(T low, T high) {
  const std::string expected = fmt::format("{} to {}", low, high);
  return CLI::Validator(
      [=](std::string& text) -> std::string {
        T value{};
        const bool inside =
            CLI::detail::lexical_cast(text, value) && value >= low && value <= high;
        return inside ? "" : fmt::format("expected {}, got {}", expected, text);
      },
      expected);
}

/// Accepts integers from `low`: "--seed: expected 0 or more, got -1".
CLI::Validator at_least(int64_t low);

/// Prepares the standard streams, adds --version, parses, then calls `run`, which gives the
/// exit code. After wrong arguments (CLI11's errors and ArgumentError) that is 2, after an
/// Interrupted 128 + its signal, after any other exception and when standard output could not
/// be written 1. Errors are one line on standard error.
int run_program(CLI::App& app, int argc, char** argv, const std::function<int()>& run);

}  // namespace qtape::examples
