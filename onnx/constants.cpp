#include <fmt/format.h>

#include <algorithm>

#include "qtape/onnx/operators.h"

namespace qtape {

void OnnxOperators::give_integers(std::vector<int64_t> numbers) {
  OnnxConstant result{.is_float = false};
  result.shape = Shape{static_cast<int64_t>(numbers.size())};
  result.integers = std::move(numbers);
  to.add_constant(node.output(0), std::move(result));
}

/// Rows of a constant, in steps that may go backwards.
void OnnxOperators::slice_constant(int64_t start, int64_t end, int64_t step) {
  const OnnxConstant& from = to.constant(node, 0);
  require<FormatError>(from.shape.rank() >= 1 && step != 0, "it cannot be cut");
  const int64_t rows = from.shape[0];
  const int64_t low = step > 0 ? 0 : -1;
  const auto within = [&](int64_t at) {
    return std::clamp<int64_t>(at < 0 ? std::max<int64_t>(at, -rows - 1) + rows : at, low,
                               step > 0 ? rows : rows - 1);
  };
  const auto width = static_cast<size_t>(rows == 0 ? 0 : from.shape.elements() / rows);
  OnnxConstant result{.is_float = from.is_float};
  const auto take = [&](const auto& numbers, auto& taken, int64_t row) {
    if (numbers.empty()) return;
    const auto first = numbers.begin() + static_cast<std::ptrdiff_t>(width) * row;
    taken.insert(taken.end(), first, first + static_cast<std::ptrdiff_t>(width));
  };
  int64_t taken = 0;
  const int64_t last = within(end);
  // A step beyond the rows takes one of them.
  const int64_t stride = std::clamp<int64_t>(step, -rows - 1, rows + 1);
  for (int64_t row = within(start); stride > 0 ? row < last : row > last; row += stride) {
    take(from.floats, result.floats, row);
    take(from.integers, result.integers, row);
    ++taken;
  }
  result.shape = from.shape.with(0, taken);
  to.add_constant(node.output(0), std::move(result));
}

void OnnxOperators::constant_of_shape() {
  constexpr int64_t most = 1 << 16;  // what shapes and pads are made of is short
  const Shape shape(to.integers(node, 0));
  require<FormatError>(shape.elements() <= most, "it has {} elements, at most {} are read",
                       shape.elements(), most);
  OnnxConstant result{.shape = shape};
  const auto count = static_cast<size_t>(shape.elements());
  const onnx::TensorProto* tensor = node.tensor("value");
  const OnnxConstant value =
      tensor != nullptr ? read_constant(*tensor) : OnnxConstant{.shape = {1}, .floats = {0}};
  require<FormatError>(value.shape.elements() == 1, "its value must be one number");
  result.is_float = value.is_float;
  if (value.is_float) {
    result.floats.assign(count, value.floats[0]);
  } else {
    result.integers.assign(count, value.integers[0]);
  }
  to.add_constant(node.output(0), std::move(result));
}

void OnnxOperators::constant() {
  if (const onnx::TensorProto* tensor = node.tensor("value")) {
    return to.add_constant(node.output(0), read_constant(*tensor));
  }
  OnnxConstant result;
  if (node.has("value_float")) {
    result.floats = {node.real("value_float", 0)};
  } else if (auto floats = node.reals("value_floats")) {
    result.floats = std::move(*floats);
    result.shape = Shape{static_cast<int64_t>(result.floats.size())};
  } else if (node.has("value_int")) {
    result.is_float = false;
    result.integers = {node.integer("value_int", 0)};
  } else if (auto integers = node.integers("value_ints")) {
    return give_integers(std::move(*integers));
  } else {
    fail<FormatError>("it holds no tensor, floats or integers");
  }
  to.add_constant(node.output(0), std::move(result));
}

void OnnxOperators::shape() {
  require<FormatError>(!node.has("start") && !node.has("end"), "parts of a shape are not read");
  std::vector<int64_t> extents = x().shape;
  require<FormatError>(!extents.empty(), "a scalar has no shape");
  extents[0] = onnx_batch;
  give_integers(std::move(extents));
}

void OnnxOperators::gather() {
  node.expect("axis", 0);
  require<FormatError>(constant_input(), "only parts of shapes are gathered");
  const std::vector<int64_t> from = to.integers(node, 0);
  const OnnxConstant& indices = to.constant(node, 1);
  require<FormatError>(!indices.is_float && indices.shape.rank() <= 1,
                       "indices must be whole numbers in a row");
  OnnxConstant result{.shape = indices.shape, .is_float = false};
  for (const int64_t each : indices.integers) {
    const int at = onnx_axis(each, static_cast<int>(from.size()));
    result.integers.push_back(from[static_cast<size_t>(at)]);
  }
  to.add_constant(node.output(0), std::move(result));
}

}  // namespace qtape
