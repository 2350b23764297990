// Stored samples in the self-tests of C programs, with all expected results.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "qtape/c99/c_self_test.h"
#include "qtape/integer/program/session.h"

namespace qtape {

/// Returns the part of NAME_test.c that holds `samples` and the results of each step of
/// `reference`, and a function NAME_test_samples that compares them. Throws GraphError for NaN.
std::string c_test_samples(const IntegerProgram& program, const CProgram& written,
                           std::string_view name, std::span<const GoldenSample> samples,
                           IntegerSession& reference);

}  // namespace qtape
