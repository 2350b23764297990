// Self-test of a C program: inputs and the expected result of each step.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "qtape/c99/c_program.h"
#include "qtape/core/types.h"

namespace qtape {

/// Values of one sample: of each input, in the order of the program, with its type.
using GoldenSample = std::vector<Tensor>;

/// Options of a self-test.
struct CSelfTestOptions {
  int64_t inputs = 128;                    ///< number of inputs that the test generates on the
                                           ///< device, at least 1
  std::vector<GoldenSample> samples = {};  ///< stored with all their expected results
  /// Called before the reference runs an input, with its index and the number of inputs.
  std::function<void(int64_t, int64_t)> progress = {};
};

/// Returns NAME_test.c for `written`, the C form of `program`. Its test function compares
/// hashes of all constants, then hashes of the results of each step for generated inputs with
/// those of the reference, then the integers of the samples. The file also has a main. Throws
/// GraphError for NaN in a sample.
std::string write_c_self_test(const IntegerProgram& program, const CProgram& written,
                              std::string_view name, const CSelfTestOptions& options = {});

}  // namespace qtape
