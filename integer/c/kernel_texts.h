// Texts of the kernels in integer/c/kernels, C with placeholders, embedded by CMake.
#pragma once

#include <span>
#include <string_view>
#include <utility>

namespace qtape {

/// Returns pairs of file name and text.
std::span<const std::pair<std::string_view, std::string_view>> c_kernel_texts();

}  // namespace qtape
