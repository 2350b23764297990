// Writes generated data to files.
#pragma once

#include <string>
#include <vector>

#include "qtape/data/dataset.h"

namespace qtape::data {

/// Writes the four files that `mnist` reads, {train,t10k}-{images-idx3,labels-idx1}-ubyte, to
/// `folder`, which is created if necessary. Samples must be u8 with two axes, labels below 256.
/// Throws IoError on failure.
void write_mnist(const std::string& folder, const Split& split);

/// Returns the paths of the files that `write_mnist` writes: images and labels for training,
/// then for testing.
std::vector<std::string> mnist_files_in(const std::string& folder);

}  // namespace qtape::data
