// Stored samples in the self-tests of C programs, with all that comes of them.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "qtape/c99/c_self_test.h"
#include "qtape/integer/session.h"

namespace qtape {

/// The part of NAME_test.c that holds `samples` and what each step of `reference` makes of them,
/// and a function NAME_test_samples that compares. Throws GraphError for NaN.
std::string c_test_samples(const IntegerProgram& program, const CProgram& written,
                           std::string_view name, std::span<const GoldenSample> samples,
                           IntegerSession& reference);

}  // namespace qtape
