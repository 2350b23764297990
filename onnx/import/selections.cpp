// Operators that choose elements: Where and ArgMax.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "qtape/core/error.h"
#include "qtape/onnx/import/operators.h"

namespace qtape {
namespace {

struct SelectionOperators : OnnxOperators {
  void where();
  void arg_max();

  void where_values(const OnnxConstant& condition);
  OnnxValue masked(OnnxValue a, OnnxConstant mask);
};

/// Returns the extents to which two shapes broadcast. Throws FormatError if they do not.
Shape common_shape(const Shape& a, const Shape& b) {
  std::vector<int64_t> extents;
  for (int k = -std::max(a.rank(), b.rank()); k < 0; ++k) {
    const int64_t left = -k <= a.rank() ? a[k] : 1, right = -k <= b.rank() ? b[k] : 1;
    require<FormatError>(left == right || left == 1 || right == 1,
                         "constants of {} and {} cannot be combined", to_string(a),
                         to_string(b));
    extents.push_back(left == 1 ? right : left);
  }
  return Shape(extents);
}

/// Returns the place of element `index` of `shape` in a tensor that broadcasts to it.
size_t place_in(const Shape& from, const Shape& shape, int64_t index) {
  int64_t place = 0, stride = 1;
  for (int k = -1; - k <= shape.rank(); --k) {
    if (-k <= from.rank()) {
      place += from[k] == 1 ? 0 : index % shape[k] * stride;
      stride *= from[k];
    }
    index /= shape[k];
  }
  return static_cast<size_t>(place);
}

/// Returns floats: 1 where `condition` is `value`, else 0.
OnnxConstant mask_of(const OnnxConstant& condition, bool value) {
  OnnxConstant mask{.shape = condition.shape};
  for (const int64_t each : condition.integers) {
    mask.floats.push_back((each != 0) == value ? 1.0f : 0.0f);
  }
  return mask;
}

}  // namespace

/// Multiplies by 0 and 1, which training does not change.
OnnxValue SelectionOperators::masked(OnnxValue a, OnnxConstant mask) {
  const NodeId factors = with_constant(a, mask, to.node_label(node, "mask"), false);
  a.id = to.add(Mul{}, {a.id, factors});
  return a;
}

/// Selects by factors 0 and 1: an infinity or NaN that is not selected gives NaN.
void SelectionOperators::where_values(const OnnxConstant& condition) {
  const bool first = to.is_constant(node.input(1)), second = to.is_constant(node.input(2));
  OnnxValue a = masked(operand(first ? 2 : 1), mask_of(condition, !first));
  if (!first && !second) {
    OnnxValue b = operand(2);
    require<FormatError>(a.shape == b.shape, "inputs 1 and 2 have the shapes {} and {}",
                         extents_text(a.shape), extents_text(b.shape));
    if (a.layout != b.layout || a.flat != b.flat) {
      a = to.to_same(a);
      b = to.to_same(b);
    }
    b = masked(std::move(b), mask_of(condition, false));
    a.id = to.add(Add{}, {a.id, b.id});
    return give(std::move(a));
  }
  const OnnxConstant& other = to.constant(node, first ? 1 : 2);
  require<FormatError>(other.is_float, "input {} must hold floats", first ? 1 : 2);
  const OnnxConstant chosen = mask_of(condition, first);
  OnnxConstant offsets{.shape = common_shape(condition.shape, other.shape)};
  to.expect_room(offsets.shape.elements());
  bool any = false;
  for (int64_t i = 0; i < offsets.shape.elements(); ++i) {
    const bool taken = chosen.floats[place_in(condition.shape, offsets.shape, i)] != 0;
    const float number = other.floats[place_in(other.shape, offsets.shape, i)];
    offsets.floats.push_back(taken ? number : 0.0f);
    any = any || offsets.floats.back() != 0;
  }
  if (any) {
    const NodeId sum = with_constant(a, offsets, to.node_label(node, "offsets"), false);
    a.id = to.add(Add{}, {a.id, sum});
  }
  give(std::move(a));
}

void SelectionOperators::where() {
  const std::string& name = node.input(0);
  expect(to.is_constant(name) || to.is_unknown(name),
         "the condition, '{}', must be a constant: use arithmetic on values instead",
         printable(name));
  settle();
  const OnnxConstant& condition = to.constant(node, 0);
  require<FormatError>(!condition.is_float, "the condition must be booleans");
  where_values(condition);
}

void SelectionOperators::arg_max() {
  const int64_t given = node.integer("axis", 0);
  const bool kept = node.integer("keepdims", 1) != 0;
  expect_attribute("select_last_index", 0);
  OnnxValue a = x();
  if (a.layout == OnnxLayout::Flat) a = to.to_same(a);
  const int axis = onnx_axis(given, a.rank());
  require<FormatError>(axis != 0, "axis 0 would join samples");
  const ArgMax op{.axis = OnnxImporter::physical_axis(a, axis), .keep_dims = kept};
  OnnxValue result{.id = to.add(op, {a.id}, to.node_label(node, "argmax")),
                   .shape = a.shape,
                   .layout = a.layout};
  result.shape[static_cast<size_t>(axis)] = 1;
  if (!kept) {
    result.shape.erase(result.shape.begin() + axis);
    if (axis == 1 || result.rank() < 3) result.layout = OnnxLayout::Same;
  }
  give(std::move(result));
}

namespace {

constexpr OnnxOperator selection_rows[] = {{"Where", convert<&SelectionOperators::where>},
                                           {"ArgMax", convert<&SelectionOperators::arg_max>}};

}  // namespace

std::span<const OnnxOperator> selection_conversions() { return selection_rows; }

}  // namespace qtape
