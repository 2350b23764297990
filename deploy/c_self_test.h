// The self-test of a C program: inputs, and what each step must make of them.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "qtape/integer/c/c_program.h"

namespace qtape {

/// What a sample holds: f32 of each input, in the order of the program.
using GoldenSample = std::vector<std::vector<float>>;

/// NAME_test.c for `written`, which is `program` in C: a function that runs the samples and
/// compares what each step computes with the integers of the reference, and a main. Throws
/// GraphError for NaN.
std::string write_c_self_test(const IntegerProgram& program, const CProgram& written,
                              std::string_view name, std::span<const GoldenSample> samples);

}  // namespace qtape
