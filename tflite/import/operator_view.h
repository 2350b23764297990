// A file's operator while it is read: its operands, options and constants, whatever is made of
// it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "qtape/core/byte_order.h"
#include "qtape/core/error.h"
#include "qtape/integer/core/integer_value.h"
#include "qtape/tflite/schema.h"

namespace qtape::tflite {

/// The model at one operator. Functions throw GraphError, whose message is that of a problem of
/// the operator.
class OperatorView {
 public:
  explicit OperatorView(const TfliteModel& model);

  /// Sets the operator that is read.
  void begin(const TfliteOperator& op) { op_ = &op; }
  const TfliteModel& model() const { return model_; }
  const TfliteOperator& op() const { return *op_; }
  /// Returns the options of the operator, those of the schema's defaults if there are none.
  /// Throws for options of another operator.
  template <class O>
  O options() const {
    const bool absent = std::holds_alternative<std::monostate>(op_->options);
    if (absent && !op_->has_other_options) return {};
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
  const TfliteTensor& tensor(int32_t index) const {
    return model_.tensors[static_cast<size_t>(index)];
  }
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
    read_little_endian(data, std::span(values));
    return values;
  }
  /// Returns the numbers of a constant vector of INT32 or INT64.
  std::vector<int64_t> numbers(size_t k) const;
  /// Returns the codes of a constant tensor of INT8 or INT16.
  std::vector<int32_t> codes_of(const TfliteTensor& tensor, int64_t n) const;
  /// Returns the grid of an INT8 or INT16 tensor with one scale.
  CodeGrid grid_of(const TfliteTensor& tensor) const;
  /// Throws unless the output has the type of input `k`; and its scale and zero point, if that
  /// is codes.
  void check_same_grid(size_t k) const;
  /// Throws unless `computed` is the shape of the output.
  void check_computed(const Shape& computed) const;
  /// Throws unless the operands of a pair have the axes of the output, so that samples are not
  /// mixed.
  void check_pair() const;

  /// Counts weights that are unpacked. Throws once they exceed many times the file, as weights
  /// that many operators share can.
  void use_weights(int64_t count);
  /// True if axis 0 of all activations is the batch.
  bool batched() const { return batched_; }

 private:
  const TfliteModel& model_;
  const TfliteOperator* op_ = nullptr;
  int64_t weights_left_;
  bool batched_;
};

/// Returns the name of an input, or one with its index if it has none.
std::string name_of_input(const TfliteTensor& tensor, int32_t index);

/// Returns `operators[3] CONV_2D 'sequential/conv2d'`.
std::string place_of(const TfliteModel& model, size_t index);

}  // namespace qtape::tflite
