// Windows of convolutions and poolings, as attributes of ONNX give them.
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

/// The attribute `name`, a number for each of `count` axes; without it `usual` for all. Throws
/// FormatError for another number of numbers.
std::vector<int64_t> of_axes(const OnnxNode& node, const char* name, size_t count,
                             int64_t usual);

/// Those of `node` along `axes` axes, of SAME_LOWER without its padding. Throws FormatError for
/// another number of numbers.
Windows windows_of(const OnnxNode& node, int axes);

}  // namespace qtape
