// Compiles and runs self-tests of exported C: on this machine, and under QEMU if cross compiler
// and emulator are installed.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "qtape/c99/cmsis_nn.h"
#include "qtape/core/fields.h"

namespace qtape::tool {

/// Result of one compiler and the machine that ran its program.
struct CCheck {
  std::string target;
  bool passed = false;
  bool fits = true;
  std::optional<int64_t> code_bytes = {};
  std::optional<int64_t> constant_bytes = {};
  std::optional<int64_t> ram_bytes = {};
  std::optional<int64_t> instructions = {};

  static constexpr auto fields() {
    using C = CCheck;
    return std::tuple{
        field("target", &C::target, "processor"),
        field("passed", &C::passed, "true if all steps gave the codes of the reference"),
        field("fits", &C::fits,
              "true if network and samples fit its memory; otherwise nothing was run"),
        field("code_bytes", &C::code_bytes, "of the network; null if unknown"),
        field("constant_bytes", &C::constant_bytes, "in flash, in addition to the code"),
        field("ram_bytes", &C::ram_bytes, "static"),
        field("instructions", &C::instructions, "of one run; null without QEMU")};
  }
};

/// Returns the files of examples/firmware, by name.
std::span<const std::pair<std::string_view, std::string_view>> firmware_texts();

/// Compiles FOLDER/NAME.c and NAME_test.c for all available targets, runs the tests, and prints
/// one line per target. `library` is given for C code that calls CMSIS-NN. Throws Error if this
/// machine has no compiler.
std::vector<CCheck> check_c(const std::string& folder, const std::string& name, int64_t steps,
                            const std::optional<CmsisNn>& library);

}  // namespace qtape::tool
