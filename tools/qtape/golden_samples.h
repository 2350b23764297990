// Samples that an exported self-test stores with their results.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "qtape/c99/c_self_test.h"
#include "qtape/tools/qtape/data.h"

namespace qtape::tool {

/// Returns stored samples for the self-test: the first `golden` of the data, else random ones.
/// `file` is that of the program. Throws ArgumentError for data with fewer samples.
std::vector<GoldenSample> golden_samples(const IntegerProgram& program, int64_t golden,
                                         const DataOptions& from, const std::string& file);

}  // namespace qtape::tool
