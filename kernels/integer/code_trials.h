// Known products of codes: the kernels of this folder are tried before they are used.
#pragma once

#include "qtape/kernels/integer/code_products.h"

namespace qtape::kernels {

/// Throws Error, which names the instructions, unless WindowProducts and ChannelProducts
/// compute known products exactly on this processor by `code_products()`. They are tried once
/// in a process, at every number of points and of vectors for which there is a loop, in well
/// under a millisecond.
void require_exact_code_products();

}  // namespace qtape::kernels
