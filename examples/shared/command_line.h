// Command lines of programs that train: spellings of options, and how errors become exit codes.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "qtape/ops/core/enum_names.h"
#include "qtape/ops/core/error.h"

namespace qtape::examples {

/// Accepts the spellings of the enumeration E in any case of letters. As a transform, not as a
/// check: only so the value gets the spelling that from_string knows.
template <class E>
CLI::IsMember spelling_of() {
  return CLI::IsMember(std::vector<std::string>(enum_names<E>.begin(), enum_names<E>.end()),
                       CLI::ignore_case);
}

/// Parses, then calls `run`. The exit code: 0; 2 after wrong arguments (CLI11's errors and
/// ArgumentError); 1 after any other exception. Errors are one line on standard error.
inline int run_program(CLI::App& app, int argc, char** argv, const std::function<void()>& run) {
  const std::string name = app.get_name();
  const auto report = [&](const std::exception& error, int code) {
    fmt::print(stderr, "{}: {}\n", name, error.what());
    return code;
  };
  try {
    app.parse(argc, argv);
    run();
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    return report(error, 2);
  } catch (const ArgumentError& error) {
    return report(error, 2);
  } catch (const std::exception& error) {
    return report(error, 1);
  }
  return 0;
}

}  // namespace qtape::examples
