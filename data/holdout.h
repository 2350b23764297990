// Held-out training samples for choosing settings, so that test samples are used only once.
#pragma once

#include "qtape/data/dataset.h"

namespace qtape::data {

/// The split with its last `count` training samples in place of the test samples; unchanged for
/// 0. Throws ArgumentError if no training samples remain.
Split held_out(const Split& split, int64_t count);

}  // namespace qtape::data
