// Conversion of ONNX operators to graph nodes.
#pragma once

#include <fmt/format.h>

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "qtape/onnx/import/importer.h"
#include "qtape/onnx/import/windows.h"

namespace qtape {

/// Conversion of one node: the common part of all operators. The file of each family derives a
/// struct.
struct OnnxOperators {
  OnnxImporter& to;
  const OnnxNode& node;
  std::vector<std::string>& reasons;  ///< why the node is not supported

  /// Adds the nodes of the graph, or records why the ONNX node is not supported. Attributes and
  /// constants are checked before values, so that all reasons are found even if a value is
  /// unknown.
  void run() const;

  /// Records a reason unless `condition` holds.
  template <class... Args>
  void expect(bool condition, fmt::format_string<Args...> text, Args&&... args) {
    if (!condition) reasons.push_back(fmt::format(text, std::forward<Args>(args)...));
  }
  /// Records a reason unless an attribute is absent or equals `value`.
  void expect_attribute(const char* name, int64_t value) {
    const int64_t found = node.integer(name, value);
    expect(found == value, "attribute {} is {}, only {} is supported", name, found, value);
  }
  /// Records a reason unless input `k` is constant floats of rank `rank`.
  void expect_weights(int k, int rank, std::string_view kind);
  /// Records a reason unless attribute auto_pad has a known value.
  void expect_auto_pad();
  /// Throws OnnxRefused if there are reasons.
  void settle() const {
    if (!reasons.empty()) throw OnnxRefused();
  }
  /// Returns operand k. Throws FormatError if its batch is not the first axis.
  OnnxValue operand(int k) {
    settle();
    OnnxValue found = to.value(node, k);
    require<FormatError>(found.batch == 0, "input {} has its batch on axis {}, expected axis 0",
                         k, found.batch);
    return found;
  }
  OnnxValue x() { return operand(0); }
  /// Returns operand 0 in any layout, for operators that only move its elements.
  OnnxValue moved_x() {
    settle();
    const OnnxValue& found = to.moved_value(node, 0);
    require<FormatError>(found.batch == 0, "input 0 has its batch on axis {}, expected axis 0",
                         found.batch);
    return found;
  }
  void give(OnnxValue value, int k = 0) { to.give(node, std::move(value), k); }
  /// Sets the output to `y`, stored as [n, ..., channels], with the rows of operand 0.
  void give_channels_last(NodeId y, int64_t channels);
  void give_integers(std::vector<int64_t> numbers);
  bool constant_input() const { return to.is_constant(node.input(0)); }
  /// Returns the windows of `node` over a value with ONNX shape `shape`.
  Windows windows(const std::vector<int64_t>& shape, const std::vector<int64_t>& kernel);

  // Values whose batch is not the first axis.
  /// True if the node reads such a value, or moves the batch.
  bool is_of_sequences() const;
  /// True if an axis that Unsqueeze adds to the value comes before that of the batch.
  bool comes_before_samples(const OnnxValue& a) const;
  /// Returns the axis of the batch if the operator computes the same wherever the batch is;
  /// otherwise -1.
  int batch_without_place() const;
  // Values whose rows are the steps of all samples, see OnnxValue::steps.
  /// Returns the steps of the rows of operands, or 0.
  int64_t row_steps() const;
  void convert_step_rows();
  /// Sets the output to `a`, whose batch may be on any axis, in another shape with the same
  /// order of elements. `batch`: the axis of the batch in `shape`.
  void give_reshaped(const OnnxValue& a, std::vector<int64_t> shape, int batch);
  /// Sets the output to `a` in the shape of a Reshape: axes before the batch and those after it
  /// are reshaped by themselves, but the axis of the batch may take rows from the axes after
  /// it, or leave them rows. `literal`: an extent of 0 does not copy that of `a`.
  void reshape_sequences(const OnnxValue& a, std::vector<int64_t> shape, bool literal);
  /// Returns [batch * rows, extents before the batch, the others] of `a`, whose axis of the
  /// batch has that many rows for each sample then.
  NodeId with_rows(const OnnxValue& a, int64_t rows);
  /// Converts a reduction of a value whose batch is not the first axis.
  void reduce_sequences() const;
  /// Returns the extents of the outputs of a Split of `extent` elements.
  std::vector<int64_t> split_sizes(int64_t extent);
  /// Sets the outputs of a Split to `part(begin, size)` of `extent` elements, where needed.
  template <class Part>
  void give_parts(int64_t extent, const Part& part) {
    int64_t begin = 0;
    const std::vector<int64_t> sizes = split_sizes(extent);
    for (int k = 0; k < std::ssize(sizes); ++k) {
      const int64_t size = sizes[static_cast<size_t>(k)];
      if (to.is_needed(node.output(k))) give(part(begin, size), k);
      begin += size;
    }
  }
  /// Sets the output to `a` with its steps joined with the batch, if `shape` does that.
  bool join_steps(const OnnxValue& a, const std::vector<int64_t>& shape);
  void split_steps(const OnnxValue& a);
  /// True if the operator computes each row by itself.
  bool is_of_rows() const;
  /// Converts the node with the operators of all families.
  void convert_by_family() const;

  // Operators of several families.
  /// Sets the output to operand 0.
  void same();
  /// Adds a leaf for a constant operand, in the element order of `a`: a parameter, or a state
  /// if not `trained`. Sets the shape of `a` to that to which both broadcast.
  NodeId with_constant(OnnxValue& a, const OnnxConstant& constant, const std::string& name,
                       bool trained = true);
  /// Returns `op` of an element and a number, which is operand 0 if `first`, as a function of
  /// the element. `op` is Add, Sub, Mul or Div.
  NodeId with_number(const Op& op, NodeId x, double number, bool first);
  /// Returns `op` of two values, which broadcast, in one element order.
  OnnxValue combined(const Op& op, OnnxValue a, OnnxValue b);
  /// Returns Add, Sub, Mul or Div of two operands, of which one may be a constant. If not
  /// `trained`, that becomes a state and may hold booleans.
  OnnxValue arithmetic(const Op& op, int left, int right, bool trained = true);
  /// Returns the same of a value and operand k; the value is operand 1 if `first`, for which
  /// operand k must be a constant.
  OnnxValue with_operand(const Op& op, OnnxValue a, int k, bool first, bool trained);
  /// Returns floats: 1 where `condition` is `value`, else 0.
  static OnnxConstant mask_of(const OnnxConstant& condition, bool value);
  /// Returns 1 where x is above 0, else 0.
  NodeId is_positive(NodeId x);
  /// Multiplies a constant matrix by operand 1.
  void matmul_left();
  /// True for a node that only moves or clips codes, or casts them to the type that they have.
  bool moves_codes() const;
  /// Throws FormatError if the node computes with codes; marks codes that it gives.
  void expect_codes() const;
  /// Throws FormatError if the operands have different numbers of rows for each sample.
  void expect_equal_rows() const;
  /// Selects constant indices of an axis of operand 0.
  void gather_values();
  /// Returns the axes that a Squeeze without axes leaves out: all of extent 1 other than the
  /// batch.
  static std::vector<int64_t> squeezed_axes(const OnnxValue& a);
};

/// An ONNX operator and its conversion.
struct OnnxOperator {
  std::string_view type;
  void (*convert)(const OnnxOperators&);
  bool each_element = false;  ///< computes each element of its first input by itself
};

/// Calls `method` of a family of operators.
template <auto method>
void convert(const OnnxOperators& node) {
  [&]<class Family>(void (Family::*)()) { (Family{node}.*method)(); }(method);
}

/// True if the output has the shape of input 0, also for unsupported operators.
bool onnx_keeps_shape(std::string_view type);

/// True for operators of each element.
bool onnx_is_of_elements(std::string_view type);
/// True for operators of the last axis alone, if their constants are.
bool onnx_is_of_last_axis(std::string_view type);
/// True for a constant that broadcasts along the last axis only, or a matrix of a product.
bool onnx_is_of_last_axis(const OnnxConstant& constant, std::string_view type);

/// Returns the op of a LeakyRelu, an Elu and a HardSigmoid by their attributes. Only a
/// HardSigmoid with alpha 1/6 and beta 0.5 has one.
LeakyRelu onnx_leaky_relu(const OnnxNode& node);
Elu onnx_elu(const OnnxNode& node);
std::optional<HardSigmoid> onnx_hard_sigmoid(float alpha, float beta);

/// Returns the operators that are converted if they read values.
std::vector<std::string_view> onnx_operators();

// The operators of each file; folds are of constants.
std::span<const OnnxOperator> number_folds();
std::span<const OnnxOperator> structure_folds();
std::span<const OnnxOperator> repetition_folds();
std::span<const OnnxOperator> product_folds();
std::span<const OnnxOperator> function_folds();
/// All of these.
std::array<std::span<const OnnxOperator>, 5> constant_folds();
std::span<const OnnxOperator> code_conversions();
std::span<const OnnxOperator> constant_conversions();
std::span<const OnnxOperator> einsum_conversions();
std::span<const OnnxOperator> element_conversions();
std::span<const OnnxOperator> move_conversions();
std::span<const OnnxOperator> norm_conversions();
std::span<const OnnxOperator> pointwise_conversions();
std::span<const OnnxOperator> product_conversions();
std::span<const OnnxOperator> recurrent_conversions();
std::span<const OnnxOperator> selection_conversions();
std::span<const OnnxOperator> sequence_conversions();
std::span<const OnnxOperator> resize_conversions();
std::span<const OnnxOperator> structure_conversions();
std::span<const OnnxOperator> window_conversions();

}  // namespace qtape
