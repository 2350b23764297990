#include "qtape/programs/console/program.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <system_error>

#include "qtape/core/error.h"
#include "qtape/core/out_of_memory.h"
#include "qtape/core/whole_write.h"
#include "qtape/programs/console/interruption.h"
#include "qtape/programs/console/standard_output.h"
#include "qtape/programs/console/terminal.h"

namespace qtape::console {
namespace {

int run_checked(const std::function<int()>& body) {
  int code = 0;
  try {
    code = body();
  } catch (const std::system_error& error) {
    // fmt::print throws this, without a stream name, if standard output fails.
    if (std::ferror(stdout) != 0) fail_standard_output(error.code().value());
    throw;
  }
  require_standard_output();
  return code;
}

/// Name of the program that runs, and the handler before `end`.
char running[64] = "";
std::terminate_handler default_end = nullptr;

/// Ends the program with a line where memory runs out in a function that may not throw, as some
/// of CLI11 are declared.
[[noreturn]] void end() {
  if (const std::exception_ptr error = std::current_exception()) {
    try {
      std::rethrow_exception(error);
    } catch (const std::bad_alloc& exhausted) {
      ::_exit(report_failure(running, exhausted));
    } catch (...) {
      default_end();
    }
  }
  default_end();
  std::abort();
}

}  // namespace

int report_failure(const char* name, const std::exception& error) {
  clear_line();
  const bool plain = dynamic_cast<const std::bad_alloc*>(&error) != nullptr &&
                     dynamic_cast<const OutOfMemory*>(&error) == nullptr;
  std::fprintf(stderr, "%s: %s\n", name, plain ? "out of memory" : error.what());
  if (dynamic_cast<const ArgumentError*>(&error) != nullptr) return 2;
  const auto* interrupted = dynamic_cast<const Interrupted*>(&error);
  return interrupted != nullptr ? 128 + interrupted->signal() : 1;
}

int detail::run_program(const char* name, const std::function<int()>& body) {
  prepare_standard_streams();
  end_after_writes();
  (void)std::snprintf(running, sizeof running, "%s", name);
  if (default_end == nullptr) default_end = std::set_terminate(end);
  try {
    return run_checked(body);
  } catch (const std::exception& error) {
    return report_failure(name, error);
  } catch (...) {
    return report_failure(name, Error("an exception of another type than std::exception"));
  }
}

}  // namespace qtape::console
