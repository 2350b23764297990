// The observers of docs/quantization.md.
#pragma once

#include <string>

namespace qtape {

/// A row for each method of observers: name, settings with their defaults, range.
std::string observers_table();

}  // namespace qtape
