// Convolutions for which oneDNN implementations have known bugs.
#pragma once

#include <string_view>

#include "qtape/kernels/onednn/conv.h"

namespace qtape::kernels {

/// True if the implementation `name` (`impl_info_str`) computes wrong results or writes out of
/// bounds for this pass:
/// - AMX convolutions of bf16 with a stride larger than the kernel extent: their buffer is too
/// small and sums overwrite the image (oneDNN pull request 5494, before 3.13); also a single
/// output along a strided axis (PyTorch issue 169688);
/// - 1x1 convolutions with a stride and fewer input channels than a vector holds: the gradient
/// of filters writes past its scratchpad (oneDNN issue 6035, up to 3.13 at least).
bool is_faulty(std::string_view name, const Conv& conv, ConvPass pass);

}  // namespace qtape::kernels
