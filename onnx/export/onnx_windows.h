// Attributes of windows, which convolutions and poolings in ONNX share.
#pragma once

#include <cstdint>
#include <string>

#include "qtape/onnx/export/onnx_program.h"
#include "qtape/ops/families/window.h"

namespace qtape {

/// Returns the end padding that windows use; elements after the last window do not count.
int64_t end_padding(const WindowAxis& a);

/// Sets kernel, strides, pads and, with `dilations`, these. `one`: along one axis.
void set_window(onnx::NodeProto& node, const Window& window, bool one, bool dilations);

/// Adds a ConvInteger of u8 codes and weights, and returns the name of its sums.
std::string conv_integer(OnnxProgram& p, const std::string& x, const std::string& x_zero,
                         const std::string& w, const std::string& w_zero, const Window& window,
                         bool one, int64_t groups);

}  // namespace qtape
