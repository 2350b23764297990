// Windows of convolutions and poolings, from ONNX attributes.
#pragma once

#include <cstdint>
#include <vector>

#include "qtape/onnx/onnx_node.h"
#include "qtape/ops/families/window.h"

namespace qtape {

/// Windows along the spatial axes.
struct Windows {
  std::vector<int64_t> strides;
  std::vector<int64_t> dilations;
  std::vector<int64_t> begin;
  std::vector<int64_t> end;
  Padding padding = Padding::Valid;
};

/// Returns the attribute `name`, one number for each of `count` axes; `fallback` for all axes
/// if absent. Throws FormatError for a wrong number of values.
std::vector<int64_t> of_axes(const OnnxNode& node, const char* name, size_t count,
                             int64_t fallback);

/// Returns the windows of `node` along `axes` axes; for SAME_LOWER without its padding. Throws
/// FormatError for a wrong number of values.
Windows windows_of(const OnnxNode& node, int axes);

}  // namespace qtape
