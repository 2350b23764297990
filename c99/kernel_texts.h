// The kernels of c99/kernels, C with placeholders, as CMake links them.
#pragma once

#include <span>
#include <string_view>
#include <utility>

namespace qtape {

/// Returns pairs of file name and text.
std::span<const std::pair<std::string_view, std::string_view>> c_kernel_texts();

}  // namespace qtape
