#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "qtape/integer/rules/quantizer_of.h"
#include "qtape/onnx/import/operators.h"
#include "qtape/onnx/import/quantized.h"

namespace qtape {
namespace {

struct StructureOperators : OnnxOperators {
  void concat();
  NodeId joined_codes(NodeId joined, const std::vector<NodeId>& parts);
  /// Returns the operands that are values, each with the constants next to it.
  std::vector<OnnxValue> parts_of_concat(int64_t axis);
  OnnxValue with_ends(OnnxValue a, int axis, const std::vector<int>& before,
                      const std::vector<int>& after);
  void reshape();
  void flatten();
  void squeeze();
  void unsqueeze();
  void transpose();
};

}  // namespace

namespace {

/// Numbers of a sample: 0 in the places of a value, then constants at its ends.
struct Surroundings {
  std::vector<int64_t> extents;
  std::vector<float> numbers;

  explicit Surroundings(const OnnxValue& a) : extents(a.shape) {
    int64_t elements = 1;
    for (const int64_t each : extents) elements = onnx_product(elements, each);
    numbers.assign(static_cast<size_t>(elements), 0.0f);
  }
  /// Appends `c` along `axis`, or puts it in front.
  void join(const OnnxConstant& c, size_t axis, bool front) {
    const int64_t added = c.shape[static_cast<int>(axis)];
    int64_t inner = 1;
    for (size_t k = axis + 1; k < extents.size(); ++k) inner *= extents[k];
    const int64_t own = extents[axis] * inner, other = added * inner;
    std::vector<float> joined;
    joined.reserve(numbers.size() + c.floats.size());
    const auto append = [&](const std::vector<float>& from, int64_t begin, int64_t count) {
      joined.insert(joined.end(), from.begin() + begin, from.begin() + begin + count);
    };
    for (int64_t i = 0; i * own < std::ssize(numbers); ++i) {
      if (front) append(c.floats, i * other, other);
      append(numbers, i * own, own);
      if (!front) append(c.floats, i * other, other);
    }
    numbers = std::move(joined);
    extents[axis] += added;
  }
};

}  // namespace

/// Pads `a` along `axis`, and adds the constants of the inputs `before` and `after` in the
/// padded places: a constant has no batch, so that it cannot be an operand of Concat.
OnnxValue StructureOperators::with_ends(OnnxValue a, int axis, const std::vector<int>& before,
                                        const std::vector<int>& after) {
  const auto at = static_cast<size_t>(axis);
  Surroundings all(a);
  const auto join = [&](int k, bool front) {
    const OnnxConstant& c = *to.find_constant(node.input(k));
    std::vector<int64_t> fits = a.shape;
    fits[at] = c.shape.rank() == a.rank() ? c.shape[axis] : 0;
    require<FormatError>(
        c.is_float && c.batch_axis <= 0 && fits[at] > 0 && c.shape == Shape(fits),
        "input {} is a constant of {}, which does not fit {}", k, to_string(c.shape),
        extents_text(a.shape));
    to.spend(c.shape.elements());
    all.join(c, at, front);
  };
  to.spend(std::ssize(all.numbers));
  std::vector<int64_t> begin(a.shape.size(), 0), end(a.shape.size(), 0);
  const auto stored = static_cast<size_t>(OnnxImporter::physical_axis(a, axis));
  for (const int k : after) join(k, false);
  end[stored] = all.extents[at] - a.shape[at];
  for (size_t k = before.size(); k-- > 0;) join(before[k], true);
  begin[stored] = all.extents[at] - a.shape[at] - end[stored];
  a.id = to.add(Pad{.begin = Shape(begin), .end = Shape(end)}, {a.id});
  a.shape = all.extents;
  if (std::ranges::all_of(all.numbers, [](float each) { return each == 0; })) return a;
  const OnnxConstant constants{.shape = Shape(all.extents), .floats = std::move(all.numbers)};
  const NodeId leaf = with_constant(a, constants, node.output(0) + ".constants", false);
  a.id = to.add(Add{}, {a.id, leaf});
  return a;
}

std::vector<OnnxValue> StructureOperators::parts_of_concat(int64_t given) {
  std::vector<OnnxValue> parts;
  std::vector<std::vector<int>> after;
  std::vector<int> before;
  for (int k = 0; k < node.inputs(); ++k) {
    if (!to.is_constant(node.input(k))) {
      parts.push_back(operand(k));
      after.emplace_back();
    } else {
      (parts.empty() ? before : after.back()).push_back(k);
    }
  }
  settle();
  for (size_t k = 0; k < parts.size(); ++k) {
    if (before.empty() && after[k].empty()) continue;
    OnnxValue& part = parts[k];
    if (part.layout == OnnxLayout::Flat) part = to.to_same(part);
    const int axis = onnx_axis(given, part.rank());
    require<OnnxMixedSamples>(axis != 0, "axis 0 would join samples");
    part = with_ends(std::move(part), axis, std::exchange(before, {}), after[k]);
  }
  return parts;
}

/// Returns the joined `parts`, codes of one grid, behind a quantizer of that grid.
NodeId StructureOperators::joined_codes(NodeId joined, const std::vector<NodeId>& parts) {
  std::optional<NodeId> first;
  for (const NodeId part : parts) {
    const auto quantizer = preceding_quantizer(to.graph(), part);
    require<FormatError>(quantizer.has_value(), "it joins codes with values");
    if (!first) first = quantizer;
    require<FormatError>(onnx_codes_of(to, *quantizer) == onnx_codes_of(to, *first),
                         "it joins codes of different scales or zero points");
  }
  const Node& grid = to.graph()[*first];
  std::vector<NodeId> operands(grid.operands.begin(), grid.operands.end());
  operands[0] = joined;
  // Parts may have been clipped, to different limits.
  const FakeQuantize op = quantizer_for(onnx_codes_of(to, *first), 0);
  return to.add(op, operands, to.node_label(node, "joined"));
}

void StructureOperators::concat() {
  const int64_t given = node.integer("axis", 0);
  require<FormatError>(node.inputs() > 0, "it has no inputs");
  std::vector<OnnxValue> parts = parts_of_concat(given);
  if (parts.size() == 1) return give(std::move(parts[0]));
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
  require<OnnxMixedSamples>(axis != 0, "axis 0 would join samples");
  result.shape[static_cast<size_t>(axis)] = 0;
  for (const OnnxValue& part : parts) {
    result.shape[static_cast<size_t>(axis)] += part.shape[static_cast<size_t>(axis)];
  }
  const Concat op{.axis = OnnxImporter::physical_axis(result, axis),
                  .count = static_cast<int>(ids.size())};
  result.id = to.add(op, ids, to.node_label(node, "concat"));
  if (to.holds_codes(node.output(0))) result.id = joined_codes(result.id, ids);
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
  require<OnnxMixedSamples>(axis == 1 || axis == 1 - a.rank(), "axis {} would join samples",
                            axis);
  give(to.reshaped_later(a, {0, -1}));
}

void StructureOperators::squeeze() {
  const auto axes = to.integers_or(node, "axes", 1);
  const OnnxValue a = moved_x();
  std::vector<bool> gone(a.shape.size(), false);
  for (const int64_t each : axes.value_or(squeezed_axes(a))) {
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
    require<OnnxMixedSamples>(axis >= 1 && axis <= static_cast<int64_t>(shape.size()),
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
