// Table of observers for docs/quantization.md.
#pragma once

#include <string>

namespace qtape {

/// Returns one row per observer method: name, settings with defaults, range.
std::string observers_table();

}  // namespace qtape
