// Generated data as files.
#pragma once

#include <string>

#include "qtape/data/dataset.h"

namespace qtape::data {

/// Writes the four files that `mnist` reads, {train,t10k}-{images-idx3,labels-idx1}-ubyte, to
/// `folder`, which is made where there is none. Samples are u8 of two axes, labels below 256.
/// Throws IoError where that fails.
void write_mnist(const std::string& folder, const Split& split);

}  // namespace qtape::data
