#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "qtape/onnx/import/operators.h"

namespace qtape {
namespace {

struct ConstantOperators : OnnxOperators {
  void constant();
  void constant_of_shape();
  void shape();
  void gather();
  void embedding();
  void one_hot();
};

constexpr float max_classes = 4096;  // of OneHot, whose table is a square

}  // namespace

void OnnxOperators::give_integers(std::vector<int64_t> numbers) {
  OnnxConstant result{.is_float = false};
  result.shape = Shape{static_cast<int64_t>(numbers.size())};
  result.integers = std::move(numbers);
  to.add_constant(node.output(0), std::move(result));
}

void ConstantOperators::constant_of_shape() {
  constexpr int64_t most = 1 << 16;  // constants for shapes and pads are short
  std::vector<int64_t> extents = to.integers(node, 0);
  OnnxConstant result;
  // All elements are equal, so that the batch axis may have any extent.
  const auto batch = std::ranges::find_if(extents, is_batch);
  if (batch != extents.end()) {
    result.batch_axis = static_cast<int>(batch - extents.begin());
    *batch = 1;
  }
  require<FormatError>(std::ranges::none_of(extents, [](int64_t each) { return each < 0; }),
                       "constants of {} are not supported", extents_text(extents));
  const Shape shape(extents);
  require<FormatError>(shape.elements() <= most, "it has {} elements, at most {} are supported",
                       shape.elements(), most);
  result.shape = shape;
  const auto count = static_cast<size_t>(shape.elements());
  const onnx::TensorProto* tensor = node.tensor("value");
  const OnnxConstant value =
      tensor != nullptr ? to.read_tensor(*tensor) : OnnxConstant{.shape = {1}, .floats = {0}};
  require<FormatError>(value.shape.elements() == 1, "its value must be one number");
  result.is_float = value.is_float;
  if (value.is_float) {
    result.floats.assign(count, value.floats[0]);
  } else {
    result.integers.assign(count, value.integers[0]);
    result.type = value.type;
  }
  to.add_constant(node.output(0), std::move(result));
}

void ConstantOperators::constant() {
  if (const onnx::TensorProto* tensor = node.tensor("value")) {
    return to.add_constant(node.output(0), to.read_tensor(*tensor));
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
  std::vector<int64_t> extents;
  if (const OnnxConstant* known = to.find_constant(node.input(0))) {
    const auto all = known->shape.extents();
    extents.assign(all.begin(), all.end());
    if (known->batch_axis >= 0) extents[static_cast<size_t>(known->batch_axis)] = onnx_batch;
  } else {
    extents = x().shape;
    require<FormatError>(!extents.empty(), "a scalar has no shape");
    extents[0] = batch_times(extents[0]);
  }
  const auto rank = std::ssize(extents);
  const auto within = [&](const char* name, int64_t fallback) {
    const int64_t at = node.integer(name, fallback);
    return std::clamp<int64_t>(at < 0 ? std::max(at, -rank) + rank : at, 0, rank);
  };
  const int64_t start = within("start", 0), end = within("end", rank);
  extents.erase(extents.begin() + std::max(start, end), extents.end());
  extents.erase(extents.begin(), extents.begin() + start);
  give_integers(std::move(extents));
}

/// Looks up rows of a table.
void ConstantOperators::embedding() {
  expect_attribute("axis", 0);
  expect_weights(0, 2, "a table of floats of rank 2");
  const OnnxValue indices = to.to_same(operand(1));
  const OnnxConstant& table = to.constant(node, 0);
  require<FormatError>(to.graph()[indices.id].type.dtype == DType::S32,
                       "input 1 must hold integers");
  const std::string& name = node.input(0);
  constexpr std::string_view suffix = ".weight";
  const std::string layer = name.ends_with(suffix) ? name.substr(0, name.size() - suffix.size())
                                                   : to.module_label(node);
  const bool free = !layer.empty() && !to.graph().find(layer);
  const NodeId rows = to.add_parameter(name, table.shape, table.floats, layer, "weight");
  OnnxValue result{.id = to.add(Embedding{}, {rows, indices.id}, free ? layer : ""),
                   .shape = indices.shape};
  result.shape.push_back(table.shape[1]);
  give(std::move(result));
}

/// Looks up rows that are `on` where the column is the index, else `off`.
void ConstantOperators::one_hot() {
  const OnnxValue indices = to.to_same(x());
  const int64_t axis = node.integer("axis", -1);
  expect(axis == -1 || axis == indices.rank(), "axis {} is not supported: use the last", axis);
  settle();
  require<FormatError>(to.graph()[indices.id].type.dtype == DType::S32,
                       "input 0 must hold integers");
  const auto numbers = [&](int k, size_t count) {
    const OnnxConstant& found = to.constant(node, k);
    std::vector<float> floats = found.floats;
    for (const int64_t each : found.integers) floats.push_back(static_cast<float>(each));
    require<FormatError>(floats.size() == count, "input {} has {} numbers, expected {}", k,
                         floats.size(), count);
    return floats;
  };
  const float depth = numbers(1, 1)[0];
  require<FormatError>(depth >= 1 && depth <= max_classes && depth == std::floor(depth),
                       "the depth must be an integer in 1..{}, got {}", max_classes, depth);
  const std::vector<float> values = numbers(2, 2);
  const auto rows = static_cast<int64_t>(depth);
  to.expect_room(rows * rows);
  std::vector<float> table(static_cast<size_t>(rows * rows), values[0]);
  for (int64_t k = 0; k < rows; ++k) table[static_cast<size_t>(k * rows + k)] = values[1];
  const NodeId leaf =
      to.add_state(to.node_label(node, "one_hot.table"), Shape{rows, rows}, std::move(table));
  OnnxValue result{
      .id = to.add(Embedding{}, {leaf, indices.id}, to.node_label(node, "one_hot")),
      .shape = indices.shape};
  result.shape.push_back(rows);
  give(std::move(result));
}

void ConstantOperators::gather() {
  if (constant_input()) return embedding();
  gather_values();
}

namespace {

constexpr OnnxOperator constant_rows[] = {
    {"Constant", convert<&ConstantOperators::constant>},
    {"ConstantOfShape", convert<&ConstantOperators::constant_of_shape>},
    {"OneHot", convert<&ConstantOperators::one_hot>},
    {"Shape", convert<&ConstantOperators::shape>},
    {"Gather", convert<&ConstantOperators::gather>}};

}  // namespace

std::span<const OnnxOperator> constant_conversions() { return constant_rows; }

}  // namespace qtape
