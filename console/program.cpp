#include "qtape/console/program.h"

#include <fmt/format.h>

#include <cstdio>
#include <system_error>

#include "qtape/console/interruption.h"
#include "qtape/console/standard_output.h"
#include "qtape/console/terminal.h"
#include "qtape/core/error.h"

namespace qtape::console {
namespace {

int run_checked(const std::function<int()>& body) {
  int code = 0;
  try {
    code = body();
  } catch (const std::system_error& error) {
    // fmt::print throws these, without a name, when standard output fails.
    if (std::ferror(stdout) != 0) fail_standard_output(error.code().value());
    throw;
  }
  require_standard_output();
  return code;
}

}  // namespace

int detail::run_program(const std::string& name, const std::function<int()>& body) {
  const auto report = [&](const std::exception& error, int code) {
    clear_line();
    std::fputs(fmt::format("{}: {}\n", name, error.what()).c_str(), stderr);
    return code;
  };
  prepare_standard_streams();
  try {
    return run_checked(body);
  } catch (const ArgumentError& error) {
    return report(error, 2);
  } catch (const Interrupted& error) {
    return report(error, 128 + error.signal());
  } catch (const std::exception& error) {
    return report(error, 1);
  }
}

}  // namespace qtape::console
