#include <fmt/format.h>

#include <algorithm>

#include "qtape/onnx/import/operators.h"

namespace qtape {
namespace {

struct ConstantOperators : OnnxOperators {
  void constant();
  void constant_of_shape();
  void shape();
  void gather();
  void gather_constant();
};

}  // namespace

void OnnxOperators::give_integers(std::vector<int64_t> numbers) {
  OnnxConstant result{.is_float = false};
  result.shape = Shape{static_cast<int64_t>(numbers.size())};
  result.integers = std::move(numbers);
  to.add_constant(node.output(0), std::move(result));
}

void OnnxOperators::slice_constant(int64_t start, int64_t end, int64_t step) {
  const OnnxConstant& from = to.constant(node, 0);
  require<FormatError>(from.shape.rank() >= 1 && step != 0, "it cannot be sliced");
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
  // A larger step selects a single row.
  const int64_t stride = std::clamp<int64_t>(step, -rows - 1, rows + 1);
  for (int64_t row = within(start); stride > 0 ? row < last : row > last; row += stride) {
    take(from.floats, result.floats, row);
    take(from.integers, result.integers, row);
    ++taken;
  }
  result.shape = from.shape.with(0, taken);
  to.add_constant(node.output(0), std::move(result));
}

void ConstantOperators::constant_of_shape() {
  constexpr int64_t most = 1 << 16;  // constants for shapes and pads are short
  const std::vector<int64_t> extents = to.integers(node, 0);
  require<FormatError>(std::ranges::none_of(extents, [](int64_t each) { return each < 0; }),
                       "constants of {} are not supported", extents_text(extents));
  const Shape shape(extents);
  require<FormatError>(shape.elements() <= most, "it has {} elements, at most {} are supported",
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

void ConstantOperators::constant() {
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

void ConstantOperators::shape() {
  expect(!node.has("start") && !node.has("end"), "slices of a shape are not supported");
  settle();
  if (const OnnxConstant* known = to.find_constant(node.input(0))) {
    const auto extents = known->shape.extents();
    return give_integers({extents.begin(), extents.end()});
  }
  std::vector<int64_t> extents = x().shape;
  require<FormatError>(!extents.empty(), "a scalar has no shape");
  extents[0] = onnx_batch;
  give_integers(std::move(extents));
}

/// Selects elements along axis 0 of constants.
void ConstantOperators::gather_constant() {
  expect_attribute("axis", 0);
  settle();
  const std::vector<int64_t> from = to.integers(node, 0);
  const OnnxConstant& indices = to.constant(node, 1);
  require<FormatError>(!indices.is_float && indices.shape.rank() <= 1,
                       "indices must be integers of rank 0 or 1");
  OnnxConstant result{.shape = indices.shape, .is_float = false};
  for (const int64_t each : indices.integers) {
    const int at = onnx_axis(each, static_cast<int>(from.size()));
    result.integers.push_back(from[static_cast<size_t>(at)]);
  }
  to.add_constant(node.output(0), std::move(result));
}

/// Selects consecutive indices of an axis, or a single index, which removes the axis.
void ConstantOperators::gather() {
  if (constant_input() && to.is_constant(node.input(1))) return gather_constant();
  const int64_t along = node.integer("axis", 0);
  const OnnxConstant& indices = to.constant(node, 1);
  expect(!indices.is_float && indices.shape.rank() <= 1 && !indices.integers.empty(),
         "indices must be integers of rank 0 or 1");
  OnnxValue a = x();
  if (a.layout == OnnxLayout::Flat) a = to.to_same(a);
  const int axis = onnx_axis(along, a.rank());
  require<FormatError>(axis != 0, "axis 0 would split the batch");
  int64_t& extent = a.shape[static_cast<size_t>(axis)];
  const auto place = [&](size_t k) {
    const int64_t at = indices.integers[k];
    require<FormatError>(at >= -extent && at < extent, "index {} is out of range for {}",
                         onnx_number(at), extent);
    return at < 0 ? at + extent : at;
  };
  const int64_t first = place(0);
  for (size_t k = 0; k < indices.integers.size(); ++k) {
    require<FormatError>(place(k) == first + static_cast<int64_t>(k),
                         "only consecutive indices are supported");
  }
  const int64_t end = first + std::ssize(indices.integers);
  if (first > 0 || end < extent) {
    a.id =
        to.add(Slice{.axis = OnnxImporter::physical_axis(a, axis), .begin = first, .end = end},
               {a.id});
  }
  extent = end - first;
  if (indices.shape.rank() == 1) return give(std::move(a));
  std::vector<int64_t> shape = a.shape;
  shape[0] = onnx_batch;
  shape.erase(shape.begin() + axis);
  give(to.reshaped(a, shape));
}

namespace {

/// Returns a op b for integers. The batch extent is preserved only by neutral operands: 0 for
/// Add and Sub, 1 for Mul and Div.
int64_t folded(std::string_view op, int64_t a, int64_t b) {
  const bool neutral = (op == "Add" || op == "Sub") ? b == 0 : b == 1;
  if (a == onnx_batch && neutral) return a;
  if (b == onnx_batch && ((op == "Add" && a == 0) || (op == "Mul" && a == 1))) return b;
  require<FormatError>(a != onnx_batch && b != onnx_batch,
                       "{} of the batch extent would mix samples", op);
  int64_t y = 0;
  bool overflows = false;
  if (op == "Add") overflows = __builtin_add_overflow(a, b, &y);
  if (op == "Sub") overflows = __builtin_sub_overflow(a, b, &y);
  if (op == "Mul") overflows = __builtin_mul_overflow(a, b, &y);
  if (op == "Div") {
    require<FormatError>(b != 0, "division by 0");
    overflows = b == -1 && a == INT64_MIN;
    if (!overflows) y = a / b;
  }
  require<FormatError>(!overflows, "{} of {} and {} overflows", op, a, b);
  return y;
}

float folded(std::string_view op, float a, float b) {
  if (op == "Add") return a + b;
  if (op == "Sub") return a - b;
  return op == "Mul" ? a * b : a / b;
}

}  // namespace

void OnnxOperators::fold() {
  const OnnxConstant& a = to.constant(node, 0);
  const OnnxConstant& b = to.constant(node, 1);
  const bool one_a = a.shape.elements() == 1, one_b = b.shape.elements() == 1;
  require<FormatError>(a.is_float == b.is_float && (a.shape == b.shape || one_a || one_b),
                       "constants of {} and {} cannot be combined", to_string(a.shape),
                       to_string(b.shape));
  const bool b_larger =
      b.shape.elements() > a.shape.elements() || b.shape.rank() > a.shape.rank();
  OnnxConstant result{.shape = b_larger ? b.shape : a.shape, .is_float = a.is_float};
  const auto combine = [&](const auto& from_a, const auto& from_b, auto& y) {
    for (int64_t i = 0; i < result.shape.elements(); ++i) {
      const auto at = static_cast<size_t>(i);
      y.push_back(folded(node.type(), from_a[one_a ? 0 : at], from_b[one_b ? 0 : at]));
    }
  };
  if (result.is_float) {
    combine(a.floats, b.floats, result.floats);
  } else {
    combine(a.integers, b.integers, result.integers);
  }
  to.add_constant(node.output(0), std::move(result));
}

namespace {

constexpr OnnxOperator constant_rows[] = {
    {"Constant", convert<&ConstantOperators::constant>},
    {"ConstantOfShape", convert<&ConstantOperators::constant_of_shape>},
    {"Shape", convert<&ConstantOperators::shape>},
    {"Gather", convert<&ConstantOperators::gather>}};

}  // namespace

std::span<const OnnxOperator> constant_conversions() { return constant_rows; }

}  // namespace qtape
