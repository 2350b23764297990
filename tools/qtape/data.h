// The data that commands run models on.
#pragma once

#include <string>

#include "qtape/examples/data/digits.h"

namespace qtape::tool {

/// MNIST-format files of a directory, or the generated digits for an empty name, `samples` of
/// them for training. Throws IoError or FormatError.
inline data::Split load_data(const std::string& directory, int64_t samples = 0) {
  if (!directory.empty()) return data::read_idx_directory(directory);
  return data::example_digits(samples);
}

}  // namespace qtape::tool
