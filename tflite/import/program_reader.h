// A model while it is read as an integer program: what the readers of operators share.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "qtape/integer/program/integer_node.h"
#include "qtape/tflite/schema.h"

namespace qtape::tflite {

/// Thrown by the reader of an operator whose operand could not be read.
struct Unknown {};

/// The model and its program, at one operator. Functions throw GraphError, whose message is
/// that of a problem of the operator.
class ProgramReader {
 public:
  ProgramReader(const TfliteModel& model, IntegerProgram& program);

  /// Sets the operator that is read.
  void begin(const TfliteOperator& op) { op_ = &op; }
  const TfliteOperator& op() const { return *op_; }
  /// Returns the options of the operator, those of the schema's defaults if there are none.
  /// Throws for options of another operator.
  template <class O>
  O options() const {
    if (std::holds_alternative<std::monostate>(op_->options)) return {};
    const O* found = std::get_if<O>(&op_->options);
    check(found != nullptr, "has options of another operator, expected those of number {}",
          O::union_type);
    return *found;
  }

  /// Throws unless the operator has `least` to `most` inputs, and one output.
  void check_operands(size_t least, size_t most) const;
  bool has_input(size_t k) const;
  const TfliteTensor& input(size_t k) const;
  const TfliteTensor& output() const;
  /// True if the data of the tensor are in the file.
  bool is_constant(const TfliteTensor& tensor) const;
  /// Returns the shape of a tensor in the file.
  Shape shape_of(const TfliteTensor& tensor) const;
  /// Returns the constant data of a tensor of `type`, `size` bytes in all.
  std::span<const std::byte> data_of(const TfliteTensor& tensor, TfliteType type,
                                     int64_t size) const;
  /// Returns the `n` constants of a tensor of `type`, whose elements are T.
  template <class T>
  std::vector<T> constants(const TfliteTensor& tensor, TfliteType type, int64_t n) const {
    const auto data = data_of(tensor, type, n * static_cast<int64_t>(sizeof(T)));
    std::vector<T> values(static_cast<size_t>(n));
    if (n > 0) std::memcpy(values.data(), data.data(), data.size());
    return values;
  }
  /// Returns the numbers of a constant vector of INT32 or INT64.
  std::vector<int64_t> numbers(size_t k) const;
  /// Returns the grid of an INT8 tensor with one scale.
  CodeGrid grid_of(const TfliteTensor& tensor) const;
  /// Returns the grid of the output, limited by a fused activation.
  CodeGrid output_grid(Activation activation) const;
  /// Throws unless the output has the scale and zero point of input `k`.
  void check_same_grid(size_t k) const;

  /// Returns the value of input `k`: codes, or floats. Constants become nodes.
  ProgramNodeId value(size_t k);
  /// Returns the codes of input `k`.
  ProgramNodeId codes(size_t k);
  const IntegerValue& type_of(ProgramNodeId id) const { return program_[id].value; }
  ProgramNodeId add(IntegerOp op, std::initializer_list<ProgramNodeId> operands,
                    const std::string& label = {});
  /// Makes `id` the output of the operator; checks its shape.
  void finish(ProgramNodeId id);
  /// Adds the last node of the operator, with the name of its output.
  void finish(IntegerOp op, std::span<const ProgramNodeId> operands);
  void finish(IntegerOp op, std::initializer_list<ProgramNodeId> operands) {
    finish(std::move(op), std::span(operands.begin(), operands.size()));
  }
  /// Adds the requantization of `x` as the last node, within the bounds of 32 bits.
  void finish_requantized(ProgramNodeId x, const CodeGrid& grid);
  /// Adds the last node of an operator that keeps codes, and limits them by a fused activation.
  void finish_limited(IntegerOp op, ProgramNodeId x, Activation activation);

  /// Counts weights that are unpacked. Throws once they exceed many times the file, as weights
  /// that many operators share can.
  void use_weights(int64_t count);
  /// Throws unless the operands have the axes of the output, so that samples are not mixed.
  void check_pair(ProgramNodeId a, ProgramNodeId b) const;

  /// Returns a name that no node has: `name`, or one with a number.
  std::string unused(const std::string& name);
  void set_value(int32_t tensor, ProgramNodeId id);
  std::optional<ProgramNodeId> found_value(int32_t tensor) const;
  /// True if axis 0 of all activations is the batch.
  bool batched() const { return batched_; }

 private:
  const TfliteModel& model_;
  IntegerProgram& program_;
  const TfliteOperator* op_ = nullptr;
  std::vector<std::optional<ProgramNodeId>> values_;  // by tensor
  std::map<std::string, int> copies_;                 // numbers in use, by name
  int64_t weights_left_;
  bool batched_;
};

/// Returns the padding of a file. Throws for other numbers than those of SAME and VALID.
Padding padding_of(PaddingType padding);

/// An operator that can be read.
struct OperatorReader {
  Builtin op;
  int32_t last_version;
  void (*read)(ProgramReader& reader);
};

// Readers by family.
std::span<const OperatorReader> product_readers();
std::span<const OperatorReader> pointwise_readers();
std::span<const OperatorReader> window_readers();
std::span<const OperatorReader> structure_readers();
std::array<std::span<const OperatorReader>, 4> all_readers();

}  // namespace qtape::tflite
