// The self-test of a C program: inputs, and what each step must make of them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "qtape/c99/c_program.h"

namespace qtape {

/// What a sample holds: f32 of each input, in the order of the program.
using GoldenSample = std::vector<std::vector<float>>;

/// What a self-test runs.
struct CSelfTestOptions {
  int64_t inputs = 128;                    ///< that the test makes on the device, at least 1
  std::vector<GoldenSample> samples = {};  ///< stored with all that comes of them
  /// Called before each input runs in the reference, with its number and their number.
  std::function<void(int64_t, int64_t)> progress = {};
};

/// NAME_test.c for `written`, which is `program` in C. The function in it compares hashes of
/// all constants, then hashes of what each step gives of inputs that it makes with what the
/// reference gives, then the integers of the samples; and a main. Throws GraphError for NaN in
/// a sample.
std::string write_c_self_test(const IntegerProgram& program, const CProgram& written,
                              std::string_view name, const CSelfTestOptions& options = {});

}  // namespace qtape
