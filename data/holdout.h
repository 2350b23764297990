// Training samples held out: to choose settings by, so that test samples judge only once.
#pragma once

#include "qtape/data/dataset.h"

namespace qtape::data {

/// The split with its last `count` training samples in the place of the test samples. As it is
/// for 0. Throws ArgumentError where no training samples are left.
Split held_out(const Split& split, int64_t count);

}  // namespace qtape::data
