// Cases that cannot run here, for want of hardware or of a tool, are reported as skipped.
#pragma once

#include <doctest/doctest.h>

#include <cstdlib>
#include <string>

namespace qtape::test {

/// Exit code of a program whose tests passed, with cases that were skipped. CTest reports its
/// entry as skipped; a failure of any case takes precedence.
inline constexpr int skipped_code = 77;
inline int skipped_cases = 0;

/// Prints the reason for which the rest of a case cannot run: `return test::skip("no bf16")`.
inline void skip(const std::string& reason) {
  ++skipped_cases;
  MESSAGE("SKIPPED: ", reason);
}

/// True where another processor is emulated (scripts/test aarch64): memory and time are those
/// of the emulator, and a program that cannot start is not reported.
inline bool emulated() { return std::getenv("QEMU_LD_PREFIX") != nullptr; }

/// True if a compiled program did not start because the kernel does not know the emulator; the
/// test is then skipped.
inline bool not_started(int exit_code) {
  constexpr int not_found = 127;
  if (exit_code != not_found || !emulated()) return false;
  skip("compiled programs do not start: the kernel does not know the emulator (binfmt_misc)");
  return true;
}

/// Runs the tests of a program and returns its exit code.
inline int run_tests(int argc, char** argv) {
  const int result = doctest::Context(argc, argv).run();
  return result == 0 && skipped_cases > 0 ? skipped_code : result;
}

}  // namespace qtape::test
