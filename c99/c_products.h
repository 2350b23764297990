// C code for products with constant weights, shared by Linear and Conv.
#pragma once

#include <string>
#include <string_view>

#include "qtape/c99/c_source.h"
#include "qtape/integer/core/quantized_weights.h"
#include "qtape/ops/families/window.h"

namespace qtape {

/// Weights as a C array of rows, each padded to whole bytes.
struct CWeights {
  std::string array;
  std::string type;  ///< int8_t, or uint8_t if several weights are packed into a byte
  int64_t row = 0;   ///< bytes
};

/// Terms are padded to a multiple of this where windows are gathered.
inline constexpr int64_t c_lanes = 16;

/// Writes `codes` [rows, n] in `bits` bits each, followed by as many zero bytes as `slack`
/// codes take.
CWeights write_weights(CNode& node, std::span<const int8_t> codes, int64_t rows, int bits,
                       int64_t slack);

/// A C function for sum[j] = sum of x[i] w[j, i], see c99/kernels/dot_8.c.
std::string dot_kernel(CNode& node, int bits, std::string_view x, std::string_view sum);

/// The part of c99/kernels/depthwise.c that adds the products of one element of a window;
/// `difference` is the type of a code minus its zero point.
std::string depthwise_products(CNode& node, int bits, std::string_view x, std::string_view sum,
                               std::string_view difference);

/// A C array of offsets and its element type, which fits all values.
struct COffsets {
  std::string array;
  std::string type;
};
/// Writes the offsets that are added to the products of each output.
COffsets write_offsets(CNode& node, std::string_view name, std::span<const int64_t> values);

/// Writes the extents of windows over x; returns the argument of the C call.
std::string write_window(CNode& node, int64_t images, int64_t channels, const Window& window);

}  // namespace qtape
