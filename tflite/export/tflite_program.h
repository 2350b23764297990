// An integer program while it is written as a `.tflite` model: what the writers of ops share.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "qtape/integer/program/integer_node.h"
#include "qtape/tflite/schema.h"

namespace qtape::tflite {

/// Constant data of a tensor, and its scales.
struct ConstantData {
  std::string name;
  TfliteType type = TfliteType::Int8;
  std::vector<int64_t> shape;
  std::vector<std::byte> bytes;
  std::vector<float> scales = {};
  int32_t axis = 0;  ///< of the scales
};

/// The program and the model, at one node. Functions throw GraphError with the reason why the
/// node cannot be written.
class TfliteProgram {
 public:
  explicit TfliteProgram(const IntegerProgram& program);

  /// Sets the node that is written.
  void begin(ProgramNodeId id) { current_ = id; }
  const IntegerProgram& program() const { return program_; }
  const IntegerNode& node() const { return program_[current_]; }
  const IntegerNode& operand(size_t i) const { return program_[node().operands[i]]; }
  const IntegerValue& out() const { return node().value; }
  const IntegerValue& in(size_t i) const { return operand(i).value; }

  /// Returns the tensor of operand `i`, which must be codes that are written, with the dtype of
  /// the node.
  int32_t tensor(size_t i) const { return same_type_tensor(node().operands[i]); }
  /// Returns the tensor of codes from which the node is computed, and which have its dtype.
  int32_t same_type_tensor(ProgramNodeId id) const;
  /// Returns the tensor of a node. Throws if it has none.
  int32_t tensor_of(ProgramNodeId id) const;
  bool has_tensor(ProgramNodeId id) const { return tensors_[id].has_value(); }

  /// Adds a tensor of codes of `value`, in another shape if given.
  int32_t add_tensor(const std::string& name, const IntegerValue& value,
                     const std::optional<Shape>& shape = {});
  int32_t add_constant(const ConstantData& data);
  /// Adds a constant vector of s32.
  int32_t add_numbers(const std::string& name, const std::vector<int32_t>& values,
                      const Shape& shape);
  void add_operator(Builtin op, std::vector<int32_t> inputs, int32_t output,
                    Options options = {});
  /// Adds the operator whose output is the node.
  void finish(Builtin op, std::vector<int32_t> inputs, Options options = {});
  /// Makes `tensor` that of the node.
  void finish(int32_t tensor);
  /// Adds the tensor of the node, for an operator that is added separately.
  int32_t add_result();
  /// Gives a node that is refused a tensor, so that the nodes after it can be checked; returns
  /// false if its value is not codes of the format.
  bool replace_refused();
  /// Returns the tensor of an earlier node that requantizes the same sums to `grid`.
  std::optional<int32_t> same_codes(const CodeGrid& grid) const;
  /// Sets the inputs of the model, in the order of the program's. Throws for one without a
  /// quantizer.
  void set_inputs();
  /// Makes the node, which quantizes an input, an input of the model with the label of that.
  void finish_input();
  /// Returns a remark on an input whose codes the program limits; empty for other tensors.
  std::string limits_of(int32_t tensor) const;
  /// Returns the activation of codes of `grid`.
  static Activation activation(const CodeGrid& grid);
  /// Returns a name for a part of the node, or of the layer whose sums the node requantizes:
  /// `conv1/weights`.
  std::string part(std::string_view name) const;

  /// Adds a remark on the node, or on the layer whose sums it requantizes, to the notes of the
  /// export.
  void note(std::string_view text);

  TfliteModel model;
  std::vector<std::string> notes;

 private:
  std::string name() const;
  /// Returns the name of the layer whose sums the node requantizes; of other nodes their own.
  std::string layer_name() const;
  /// Returns `name`, or the first of `name.2`, `name.3`, ... that no tensor has.
  std::string unused(const std::string& name);

  const IntegerProgram& program_;
  ProgramNodeId current_ = {};
  NodeMap<std::optional<int32_t>, IntegerProgram> tensors_;
  std::set<std::string> names_;            // of tensors
  std::map<int32_t, int32_t> inputs_;      // tensors of inputs, by node
  std::map<int32_t, std::string> limits_;  // by tensor
};

}  // namespace qtape::tflite
