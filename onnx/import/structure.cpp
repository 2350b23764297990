#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "qtape/onnx/import/channels.h"
#include "qtape/onnx/import/operators.h"

namespace qtape {
namespace {

struct StructureOperators : OnnxOperators {
  void concat();
  void reshape();
  void flatten();
  void squeeze();
  void unsqueeze();
  void transpose();
};

}  // namespace

void StructureOperators::concat() {
  const int64_t given = node.integer("axis", 0);
  require<FormatError>(node.inputs() > 0, "it has no inputs");
  std::vector<OnnxValue> parts;
  for (int k = 0; k < node.inputs(); ++k) parts.push_back(operand(k));
  const bool last = std::ranges::all_of(
      parts, [](const OnnxValue& part) { return part.layout == OnnxLayout::ChannelsLast; });
  std::vector<NodeId> ids;
  for (OnnxValue& part : parts) {
    if (!last) part = to.to_same(part);
    require<FormatError>(part.rank() == parts[0].rank(), "inputs have different ranks");
    ids.push_back(part.id);
  }
  OnnxValue result = parts[0];
  const int axis = onnx_axis(given, result.rank());
  require<FormatError>(axis != 0, "axis 0 would join samples");
  result.shape[static_cast<size_t>(axis)] = 0;
  for (const OnnxValue& part : parts) {
    result.shape[static_cast<size_t>(axis)] += part.shape[static_cast<size_t>(axis)];
  }
  const Concat op{.axis = OnnxImporter::physical_axis(result, axis),
                  .count = static_cast<int>(ids.size())};
  result.id = to.add(op, ids, to.node_label(node, "concat"));
  give(std::move(result));
}

void StructureOperators::reshape() {
  const bool literal = node.integer("allowzero", 0) != 0;
  const std::vector<int64_t> shape = to.integers(node, 1);
  expect(!literal || std::ranges::find(shape, 0) == shape.end(),
         "with allowzero {} has no elements, and empty tensors are not supported",
         extents_text(shape));
  give(to.reshaped_later(moved_x(), shape));
}

void StructureOperators::flatten() {
  const int64_t axis = node.integer("axis", 1);
  const OnnxValue a = moved_x();
  require<FormatError>(axis == 1 || axis == 1 - a.rank(), "axis {} would join samples", axis);
  give(to.reshaped_later(a, {0, -1}));
}

void StructureOperators::squeeze() {
  const auto axes = to.integers_or(node, "axes", 1);
  expect(axes.has_value(), "without axes it may join samples; specify them");
  const OnnxValue a = moved_x();
  std::vector<bool> gone(a.shape.size(), false);
  for (const int64_t each : *axes) {
    const auto axis = static_cast<size_t>(onnx_axis(each, a.rank()));
    require<FormatError>(axis != 0 && a.shape[axis] == 1, "axis {} has extent {}", axis,
                         axis == 0 ? "of the batch" : fmt::format("{}", a.shape[axis]));
    gone[axis] = true;
  }
  std::vector<int64_t> shape;
  for (size_t k = 0; k < a.shape.size(); ++k) {
    if (!gone[k]) shape.push_back(k == 0 ? 0 : a.shape[k]);
  }
  give(to.reshaped_later(a, shape));
}

void StructureOperators::unsqueeze() {
  const auto axes = to.integers_or(node, "axes", 1);
  require<FormatError>(axes.has_value(), "axes are missing");
  const OnnxValue a = moved_x();
  std::vector<int64_t> sorted;
  const int rank = a.rank() + static_cast<int>(axes->size());
  for (const int64_t each : *axes) sorted.push_back(onnx_axis(each, rank));
  std::ranges::sort(sorted);
  std::vector<int64_t> shape = a.shape;
  shape[0] = 0;  // as the input
  for (const int64_t axis : sorted) {
    require<FormatError>(axis >= 1 && axis <= static_cast<int64_t>(shape.size()),
                         "axis {} would come before the samples", axis);
    shape.insert(shape.begin() + axis, 1);
  }
  give(to.reshaped_later(a, shape));
}

void StructureOperators::transpose() {
  const auto given = node.integers("perm");
  expect(given && !given->empty() && (*given)[0] == 0,
         "it must leave axis 0, the batch axis, in place");
  const OnnxValue a = moved_x();
  std::vector<int64_t> axes(a.shape.size());
  std::iota(axes.begin(), axes.end(), 0);
  require<FormatError>(std::ranges::is_permutation(*given, axes),
                       "perm {} is not a permutation of the axes of {}", extents_text(*given),
                       extents_text(a.shape));
  give(to.permuted_later(a, {given->begin(), given->end()}));
}

namespace {

constexpr OnnxOperator structure_rows[] = {
    {"Concat", convert<&StructureOperators::concat>},
    {"Reshape", convert<&StructureOperators::reshape>},
    {"Flatten", convert<&StructureOperators::flatten>},
    {"Squeeze", convert<&StructureOperators::squeeze>},
    {"Unsqueeze", convert<&StructureOperators::unsqueeze>},
    {"Transpose", convert<&StructureOperators::transpose>}};

}  // namespace

std::span<const OnnxOperator> structure_conversions() { return structure_rows; }

}  // namespace qtape
