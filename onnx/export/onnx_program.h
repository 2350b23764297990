// An integer program while it is written as an ONNX graph: what the writers of ops share.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "qtape/integer/program/integer_node.h"
#include "qtape/onnx/export.h"
#include "qtape/onnx/export/onnx_writer.h"

namespace qtape {

/// A value of the program in the ONNX graph. If `channels_first`, [n, h, w, c] is stored as
/// [n, c, h, w].
struct Written {
  std::string name;
  bool channels_first = false;
};

/// The program and the graph, at one node. Functions that add nodes return the name of their
/// result.
struct OnnxProgram {
  const IntegerProgram& program;
  int64_t opset;
  OnnxWriter to;
  OnnxForm form;
  ProgramNodeId current = {};                 ///< the node that is written
  std::vector<std::string> bases = {};        ///< prefixes of names, by node
  std::vector<Written> values = {};           ///< by node
  std::map<int32_t, std::string> names = {};  ///< of inputs and outputs, by node
  /// The axis that grows with the batch, by node; -1 for none.
  std::vector<int> batch_axes = {};

  /// True if the program's accumulators are written as floats.
  bool in_floats() const { return form != OnnxForm::Integer; }
  /// True if the program's codes are written as the floats for which they stand.
  bool codes_in_floats() const { return form == OnnxForm::Qonnx; }
  const IntegerNode& node() const { return program[current]; }
  const IntegerValue& out() const { return node().value; }
  const IntegerValue& in(size_t i) const { return program[node().operands[i]].value; }
  const Written& written(size_t i) const;
  /// Returns `conv1.codes` for the node `conv1`.
  std::string named(std::string_view part) const;
  /// Notes which axes grow with the batch, unless all extents are written.
  void find_batch_axes();
  /// Returns the extents of the value of the node, -1 for the one that grows with the batch.
  std::vector<int64_t> extents() const;
  /// Returns the name of the extent that grows with the batch, and its axis; -1 for none.
  BatchExtent batch_extent(ProgramNodeId id) const;
  /// True for s32 indices, which are integers in both forms.
  bool is_index(ProgramNodeId id) const;
  static bool is_wide(DType dtype) { return size_of(dtype) == 2; }
  void check_codes(const IntegerValue& value) const;
  std::string transposed(const std::string& x, std::vector<int64_t> axes);
  std::string channels_first(size_t i);
  std::string channels_last(size_t i) { return channels_last(written(i), in(i).type.shape); }
  std::string channels_last(const Written& x, const Shape& shape);
  /// Returns the place of `axis` of operand `i`, which counts from the front, in the layout in
  /// which the operand is written.
  int written_axis(size_t i, int axis) const;
  /// Returns the shape of per-channel values that are broadcast to a value.
  Shape beside(int64_t n, bool channels_first, const Shape& value) const;
  std::string cast(const std::string& x, DType dtype, std::string_view part);
  /// Adds codes minus their zero point, as s32.
  std::string differences(const std::string& x, const IntegerValue& value);
  /// Adds the floats that sums with the scales of `value` represent.
  std::string floats(const std::string& sums, const IntegerValue& value, bool channels_first);
  /// Adds the floats that codes represent, in the form that runtimes recognize.
  std::string dequantized(const std::string& x, const IntegerValue& value);
  /// Adds the values of constant `codes`; scales and zero points are one for all, or one for
  /// each index of axis 0.
  std::string dequantized(std::string_view part, const std::string& codes,
                          const std::string& zeros, const std::vector<float>& scales);
  /// Returns the shape of scales: a scalar, or one per index.
  static Shape of_axis(size_t scales);
  /// Adds weights `codes` of `shape`. ONNX Runtime fuses only weights with explicit zero
  /// points.
  std::string weight_value(const QuantizedWeights& weights, const Shape& shape,
                           std::span<const int8_t> codes);
  static std::vector<float> scales_of(const QuantizedWeights& weights);
  /// Adds the bias in floats, on the grid of the sums.
  std::string bias_value(const QuantizedWeights& weights);
  /// Adds the value of operand `i` in floats.
  std::string values_of(size_t i, const std::string& x, bool channels_first);
  std::string quantized(const std::string& x, DType dtype, double step, int32_t zero_point);
  /// Adds the codes of floats.
  std::string codes(const std::string& x, const CodeGrid& grid);
  /// Adds the float value of a code as a constant.
  std::string float_of(std::string_view part, int32_t code, int32_t zero_point, double scale);
  /// Applies `moved`, which selects elements, to codes `x` of operand 0. ONNX or its runtimes
  /// support this only for 8 bits and floats; 16-bit codes are converted to floats and back,
  /// which is exact.
  template <class Moved>
  std::string chosen(const std::string& x, const Moved& moved) {
    const IntegerValue& value = in(0);
    if (codes_in_floats() || !is_wide(value.type.dtype)) return moved(x);
    return quantized(moved(dequantized(x, value)), value.type.dtype, value.scales[0],
                     value.zero_point);
  }
  std::string code(DType dtype, std::string_view part, int32_t value);
  /// Adds a code of `value` as a constant, or the float for which it stands where that is what
  /// can be written: of 16-bit codes, and of codes in floats.
  std::string code_or_float(std::string_view part, int32_t code, const IntegerValue& value);
  /// Adds constant codes, packed as in memory.
  std::string constant_codes(const CodeGrid& grid, const Tensor& codes);
  /// Returns the type of the value of a node in the model.
  TensorType type_in_model(ProgramNodeId id) const;
  /// Adds the values of `grid` that are nearest to floats, as Quant computes them.
  std::string on_grid(const std::string& x, const CodeGrid& grid);
  /// Adds codes as u8, with their zero point.
  std::pair<std::string, std::string> unsigned_codes(const std::string& x,
                                                     const IntegerValue& value);
  /// Adds `codes` as u8 weights with zero point 128.
  std::pair<std::string, std::string> unsigned_weights(const Shape& shape,
                                                       std::span<const int8_t> codes);
  std::string with_bias(const std::string& products, const QuantizedWeights& weights,
                        bool channels_first);
};

}  // namespace qtape
