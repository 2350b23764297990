// Operators that choose elements: comparisons, Where and ArgMax. Booleans that depend on inputs
// are 0 and 1 in f32.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "qtape/core/error.h"
#include "qtape/onnx/import/operators.h"

namespace qtape {
namespace {

struct SelectionOperators : OnnxOperators {
  void greater() { give(above(0, 1)); }
  void less() { give(above(1, 0)); }
  void greater_or_equal() { give(opposite(above(1, 0))); }
  void less_or_equal() { give(opposite(above(0, 1))); }
  void equal() { give(opposite(is_other(arithmetic(Sub{}, 0, 1, false)))); }
  void negation() { give(opposite(x())); }
  void both() { give(arithmetic(Mul{}, 0, 1, false)); }
  void either();
  void cast();
  void cast_like();
  void where();
  void arg_max();
  void arg_min();
  void index_of(double sign);

  OnnxValue above(int left, int right);
  OnnxValue opposite(OnnxValue a);
  OnnxValue is_other(OnnxValue a);
  void where_computed();
  bool is_zero(int k) const;
  OnnxValue chosen(OnnxValue mask, int k);
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

}  // namespace

OnnxConstant OnnxOperators::mask_of(const OnnxConstant& condition, bool value) {
  OnnxConstant mask{.shape = condition.shape};
  for (const int64_t each : condition.integers) {
    mask.floats.push_back((each != 0) == value ? 1.0f : 0.0f);
  }
  return mask;
}

/// Returns 1 where operand `left` is larger than operand `right`.
OnnxValue SelectionOperators::above(int left, int right) {
  OnnxValue a = arithmetic(Sub{}, left, right, false);
  a.id = is_positive(a.id);
  return a;
}

/// Returns 1 - a.
OnnxValue SelectionOperators::opposite(OnnxValue a) {
  a.id = to.add(Affine{.factor = -1, .offset = 1}, {a.id});
  return a;
}

/// Returns 1 where a is not 0.
OnnxValue SelectionOperators::is_other(OnnxValue a) {
  a.id = to.add(Abs{}, {to.add(Signum{}, {a.id})});
  return a;
}

/// Converts to a + b - a b.
void SelectionOperators::either() {
  OnnxValue sum = arithmetic(Add{}, 0, 1, false);
  OnnxValue product = arithmetic(Mul{}, 0, 1, false);
  give(combined(Sub{}, std::move(sum), std::move(product)));
}

/// Casts between floats change nothing, as those between integers and of codes to their type.
void SelectionOperators::cast() {
  using Proto = onnx::TensorProto;
  const int64_t type = node.integer("to", 0);
  OnnxValue a = x();
  if (to.holds_codes(node.input(0))) return give(std::move(a));
  if (type == Proto::BOOL) return give(is_other(std::move(a)));
  const bool indices = to.graph()[a.id].type.dtype == DType::S32;
  const bool floats = type == Proto::FLOAT || type == Proto::DOUBLE;
  const bool integers = type == Proto::INT32 || type == Proto::INT64;
  expect(indices || !integers,
         "casts of computed values to integers are not supported: make the integers an input");
  expect(floats || integers, "casts to type {} are not supported", type);
  if (indices && floats) a.id = to.add(Cast{}, {a.id});
  give(std::move(a));
}

/// Casts to the type of another value or constant, of which only floats are supported.
void SelectionOperators::cast_like() {
  const OnnxConstant* like = to.find_constant(node.input(1));
  const bool floats = like != nullptr
                          ? like->is_float
                          : to.graph()[to.value(node, 1).id].type.dtype != DType::S32;
  expect(floats, "casts to the type of integers are not supported");
  const OnnxConstant* constant = to.find_constant(node.input(0));
  if (constant != nullptr) {
    require<FormatError>(std::ranges::none_of(constant->integers, is_batch),
                         "the batch extent cannot be cast to floats");
    OnnxConstant cast = *constant;
    if (!cast.is_float) cast.floats.assign(cast.integers.begin(), cast.integers.end());
    cast.is_float = true;
    return to.add_constant(node.output(0), std::move(cast));
  }
  OnnxValue a = x();
  if (to.graph()[a.id].type.dtype == DType::S32) a.id = to.add(Cast{}, {a.id});
  give(std::move(a));
}

/// True for one number, which is 0.
bool SelectionOperators::is_zero(int k) const {
  const OnnxConstant* constant = to.find_constant(node.input(k));
  return constant != nullptr && constant->floats == std::vector<float>{0};
}

/// Returns operand k times the mask.
OnnxValue SelectionOperators::chosen(OnnxValue mask, int k) {
  const OnnxConstant* constant = to.find_constant(node.input(k));
  require<FormatError>(constant == nullptr || constant->is_float, "input {} must hold floats",
                       k);
  return with_operand(Mul{}, std::move(mask), k, false, false);
}

/// Selects by a mask that depends on inputs: an infinity or NaN that is not selected gives NaN.
void SelectionOperators::where_computed() {
  const OnnxValue mask = x();
  if (is_zero(2)) return give(chosen(mask, 1));
  OnnxValue b = chosen(opposite(mask), 2);
  if (is_zero(1)) return give(std::move(b));
  OnnxValue a = chosen(mask, 1);
  give(combined(Add{}, std::move(a), std::move(b)));
}

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
    OnnxValue b = masked(operand(2), mask_of(condition, false));
    return give(combined(Add{}, std::move(a), std::move(b)));
  }
  const OnnxConstant& other = to.constant(node, first ? 1 : 2);
  require<FormatError>(other.is_float, "input {} must hold floats", first ? 1 : 2);
  const OnnxConstant chosen = mask_of(condition, first);
  OnnxConstant offsets{.shape = common_shape(condition.shape, other.shape)};
  to.expect_room(offsets.shape.elements());
  bool any = false;  // true if offsets change values or the shape
  for (int k = 1; k <= std::min(offsets.shape.rank(), a.rank()); ++k) {
    any = any || offsets.shape[-k] > a.shape[a.shape.size() - static_cast<size_t>(k)];
  }
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
  settle();
  if (!to.is_constant(name) && !to.is_unknown(name)) return where_computed();
  const OnnxConstant& condition = to.constant(node, 0);
  require<FormatError>(!condition.is_float, "the condition must be booleans");
  where_values(condition);
}

void SelectionOperators::arg_max() { index_of(1); }

void SelectionOperators::arg_min() { index_of(-1); }

/// Gives the index of the largest element after a multiplication by `sign`.
void SelectionOperators::index_of(double sign) {
  const int64_t given = node.integer("axis", 0);
  const bool kept = node.integer("keepdims", 1) != 0;
  expect_attribute("select_last_index", 0);
  OnnxValue a = x();
  if (a.layout == OnnxLayout::Flat) a = to.to_same(a);
  const int axis = onnx_axis(given, a.rank());
  require<OnnxMixedSamples>(axis != 0, "axis 0 would join samples");
  if (sign < 0) a.id = to.add(Affine{.factor = sign}, {a.id});
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

constexpr OnnxOperator selection_rows[] = {
    {"Greater", convert<&SelectionOperators::greater>},
    {"Less", convert<&SelectionOperators::less>},
    {"GreaterOrEqual", convert<&SelectionOperators::greater_or_equal>},
    {"LessOrEqual", convert<&SelectionOperators::less_or_equal>},
    {"Equal", convert<&SelectionOperators::equal>},
    {"Not", convert<&SelectionOperators::negation>, true},
    {"And", convert<&SelectionOperators::both>},
    {"Or", convert<&SelectionOperators::either>},
    {"Cast", convert<&SelectionOperators::cast>, true},
    {"CastLike", convert<&SelectionOperators::cast_like>},
    {"Where", convert<&SelectionOperators::where>},
    {"ArgMax", convert<&SelectionOperators::arg_max>},
    {"ArgMin", convert<&SelectionOperators::arg_min>}};

}  // namespace

std::span<const OnnxOperator> selection_conversions() { return selection_rows; }

}  // namespace qtape
