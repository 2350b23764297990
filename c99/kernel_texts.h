// The kernels of c99/kernels, C with placeholders, as CMake links them.
#pragma once

#include <span>
#include <string_view>
#include <utility>

namespace qtape {

/// By the names of their files.
std::span<const std::pair<std::string_view, std::string_view>> c_kernel_texts();

}  // namespace qtape
