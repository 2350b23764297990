// The sources of tflite/micro, as CMake links them.
#pragma once

#include <span>
#include <string_view>
#include <utility>

namespace qtape::tflite {

/// Returns pairs of file name and text.
std::span<const std::pair<std::string_view, std::string_view>> micro_texts();

}  // namespace qtape::tflite
