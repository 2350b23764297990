#include <fmt/format.h>

#include <algorithm>

#include "qtape/onnx/channels.h"
#include "qtape/onnx/operators.h"

namespace qtape {
namespace {

/// `extent`, where a sum of two cannot overflow. Throws FormatError.
int64_t bounded(int64_t extent) {
  require<FormatError>(extent >= -Shape::max_elements && extent <= Shape::max_elements,
                       "{} is beyond any tensor", extent);
  return extent;
}

}  // namespace

void OnnxOperators::concat() {
  if (constant_input()) {
    std::vector<int64_t> all;
    for (int k = 0; k < node.inputs(); ++k) {
      const std::vector<int64_t> part = to.integers(node, k);
      all.insert(all.end(), part.begin(), part.end());
    }
    return give_integers(std::move(all));
  }
  std::vector<OnnxValue> parts;
  for (int k = 0; k < node.inputs(); ++k) parts.push_back(to.value(node, k));
  const bool last = std::ranges::all_of(
      parts, [](const OnnxValue& part) { return part.layout == OnnxLayout::ChannelsLast; });
  std::vector<NodeId> ids;
  for (OnnxValue& part : parts) {
    if (!last) part = to.to_same(part);
    require<FormatError>(part.rank() == parts[0].rank(), "inputs have different ranks");
    ids.push_back(part.id);
  }
  OnnxValue result = parts[0];
  const int axis = onnx_axis(node.integer("axis", 0), result.rank());
  require<FormatError>(axis != 0, "axis 0 would join samples");
  result.shape[static_cast<size_t>(axis)] = 0;
  for (const OnnxValue& part : parts) {
    result.shape[static_cast<size_t>(axis)] += part.shape[static_cast<size_t>(axis)];
  }
  const Concat op{.axis = OnnxImporter::physical_axis(result, axis),
                  .count = static_cast<int>(ids.size())};
  result.id = to.add(op, ids);
  give(std::move(result));
}

void OnnxOperators::reshape() {
  node.expect("allowzero", 0);
  const std::vector<int64_t> shape = to.integers(node, 1);
  if (!constant_input()) return give(to.reshaped(x(), shape));
  OnnxConstant result = to.constant(node, 0);
  std::vector<int64_t> extents = shape;
  int64_t known = 1;
  for (const int64_t each : extents) known = onnx_product(known, std::max<int64_t>(each, 1));
  std::ranges::replace(extents, int64_t{-1}, result.shape.elements() / known);
  const Shape target(extents);
  require<FormatError>(target.elements() == result.shape.elements(),
                       "{} elements do not fit [{}]", result.shape.elements(),
                       fmt::join(shape, ", "));
  result.shape = target;
  to.add_constant(node.output(0), std::move(result));
}

void OnnxOperators::flatten() {
  const OnnxValue a = x();
  const int axis = a.rank() == 0 ? 0 : static_cast<int>(node.integer("axis", 1));
  require<FormatError>(axis == 1 || axis == 1 - a.rank(), "axis {} would join samples", axis);
  give(to.reshaped(a, {onnx_batch, -1}));
}

void OnnxOperators::squeeze() {
  const auto axes = to.integers_or(node, "axes", 1);
  if (constant_input()) return same();
  require<FormatError>(axes.has_value(), "without axes it may join samples; name them");
  const OnnxValue a = x();
  std::vector<bool> gone(a.shape.size(), false);
  for (const int64_t each : *axes) {
    const auto axis = static_cast<size_t>(onnx_axis(each, a.rank()));
    require<FormatError>(axis != 0 && a.shape[axis] == 1, "axis {} has extent {}", axis,
                         axis == 0 ? "of the batch" : fmt::format("{}", a.shape[axis]));
    gone[axis] = true;
  }
  std::vector<int64_t> shape;
  for (size_t k = 0; k < a.shape.size(); ++k) {
    if (!gone[k]) shape.push_back(k == 0 ? onnx_batch : a.shape[k]);
  }
  give(to.reshaped(a, shape));
}

void OnnxOperators::unsqueeze() {
  const auto axes = to.integers_or(node, "axes", 1);
  require<FormatError>(axes.has_value(), "axes are missing");
  if (constant_input()) {
    OnnxConstant result = to.constant(node, 0);
    std::vector<int64_t> extents(result.shape.extents().begin(), result.shape.extents().end());
    const int rank = result.shape.rank() + static_cast<int>(axes->size());
    for (const int64_t each : *axes) {
      const int axis = onnx_axis(each, rank);
      require<FormatError>(axis <= static_cast<int>(extents.size()), "axis {} is out of range",
                           axis);
      extents.insert(extents.begin() + axis, 1);
    }
    result.shape = Shape(extents);
    return to.add_constant(node.output(0), std::move(result));
  }
  const OnnxValue a = x();
  std::vector<int64_t> sorted;
  const int rank = a.rank() + static_cast<int>(axes->size());
  for (const int64_t each : *axes) sorted.push_back(onnx_axis(each, rank));
  std::ranges::sort(sorted);
  std::vector<int64_t> shape = a.shape;
  shape[0] = onnx_batch;
  for (const int64_t axis : sorted) {
    require<FormatError>(axis >= 1 && axis <= static_cast<int64_t>(shape.size()),
                         "axis {} would come before the samples", axis);
    shape.insert(shape.begin() + axis, 1);
  }
  give(to.reshaped(a, shape));
}

void OnnxOperators::transpose() {
  if (constant_input()) {
    const OnnxConstant& matrix = to.constant(node, 0);
    require<FormatError>(matrix.shape.rank() == 2 &&
                             node.integers("perm").value_or(std::vector<int64_t>{1, 0}) ==
                                 std::vector<int64_t>{1, 0},
                         "of constants only matrices are transposed");
    OnnxConstant result{.shape = {matrix.shape[1], matrix.shape[0]},
                        .is_float = matrix.is_float};
    result.floats = transposed(matrix.floats, matrix.shape[0], matrix.shape[1]);
    result.integers = transposed(matrix.integers, matrix.shape[0], matrix.shape[1]);
    return to.add_constant(node.output(0), std::move(result));
  }
  OnnxValue a = x();
  if (a.layout == OnnxLayout::Flat) a = to.to_same(a);
  const auto given = node.integers("perm");
  require<FormatError>(given && given->size() == a.shape.size() && (*given)[0] == 0,
                       "it must leave axis 0, that of the samples, and name all axes");
  Transpose op;
  OnnxValue result{.id = a.id, .shape = {}};
  bool moved = false;
  for (const int64_t each : *given) {
    const int axis = onnx_axis(each, a.rank());
    const int from = OnnxImporter::physical_axis(a, axis);
    moved = moved || from != static_cast<int>(op.permutation.size());
    op.permutation.push_back(from);
    result.shape.push_back(a.shape[static_cast<size_t>(axis)]);
  }
  if (moved) result.id = to.add(op, {a.id});
  give(std::move(result));
}

void OnnxOperators::slice() {
  const auto starts = to.integers_or(node, "starts", 1);
  const auto ends = to.integers_or(node, "ends", 2);
  const auto named = to.integers_or(node, "axes", 3);
  const auto steps = to.integers_or(node, "steps", 4);
  require<FormatError>(starts && ends && starts->size() == ends->size() &&
                           (!named || named->size() == starts->size()),
                       "starts, ends and axes must be as many");
  if (constant_input()) {
    require<FormatError>(starts->size() == 1 && (!named || named->at(0) == 0),
                         "constants are cut along axis 0 alone");
    return slice_constant((*starts)[0], (*ends)[0], steps && !steps->empty() ? (*steps)[0] : 1);
  }
  for (const int64_t step : steps.value_or(std::vector<int64_t>{})) {
    require<FormatError>(step == 1, "a step of {} is not read", step);
  }
  OnnxValue a = x();
  if (a.layout == OnnxLayout::Flat) a = to.to_same(a);
  for (size_t k = 0; k < starts->size(); ++k) {
    const int axis = onnx_axis(named ? (*named)[k] : static_cast<int64_t>(k), a.rank());
    int64_t& extent = a.shape[static_cast<size_t>(axis)];
    const auto within = [&](int64_t at) {
      return std::clamp<int64_t>(at < 0 ? std::max<int64_t>(at, -extent) + extent : at, 0,
                                 extent);
    };
    const int64_t begin = within((*starts)[k]), end = within((*ends)[k]);
    require<FormatError>(axis != 0 && begin < end, "it leaves nothing of axis {}", axis);
    if (begin == 0 && end == extent) continue;
    a.id =
        to.add(Slice{.axis = OnnxImporter::physical_axis(a, axis), .begin = begin, .end = end},
               {a.id});
    extent = end - begin;
  }
  give(std::move(a));
}

void OnnxOperators::pad() {
  const std::string mode = node.text("mode", "constant");
  require<FormatError>(mode == "constant", "mode {} is not read", printable(mode));
  const auto pads = to.integers_or(node, "pads", 1);
  OnnxValue a = x();
  if (a.layout == OnnxLayout::Flat) a = to.to_same(a);
  const size_t rank = a.shape.size();
  require<FormatError>(pads && pads->size() == 2 * rank && !to.has_input(node, 3),
                       "expected {} pads for all axes", 2 * rank);
  float border = node.real("value", 0);
  if (to.has_input(node, 2)) border = to.floats(node, 2, 1)[0];
  std::vector<int64_t> begin(rank), end(rank);
  for (size_t k = 0; k < rank; ++k) {
    const auto lies =
        static_cast<size_t>(OnnxImporter::physical_axis(a, static_cast<int64_t>(k)));
    begin[lies] = bounded((*pads)[k]);
    end[lies] = bounded((*pads)[rank + k]);
    require<FormatError>(
        begin[lies] >= 0 && end[lies] >= 0 && (k > 0 || begin[lies] + end[lies] == 0),
        "axis {} cannot be padded by {} and {}", k, begin[lies], end[lies]);
    a.shape[k] += begin[lies] + end[lies];
  }
  a.id = to.add(Pad{.begin = Shape(begin), .end = Shape(end), .value = border}, {a.id});
  give(std::move(a));
}

}  // namespace qtape
