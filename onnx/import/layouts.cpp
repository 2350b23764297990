// Layouts of imported values: conversions between them, and reshaping.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "qtape/onnx/import/importer.h"

namespace qtape {
namespace {

int64_t product(std::span<const int64_t> extents) {
  int64_t result = 1;
  for (const int64_t each : extents) result *= each;
  return result;
}

/// Returns the axes after the batch as ChannelsLast stores them, counted from the batch.
std::vector<int> channels_last(int rank) {
  std::vector<int> order;
  for (int axis = 1; axis + 1 < rank; ++axis) order.push_back(axis);
  order.push_back(0);
  return order;
}

}  // namespace

int OnnxImporter::physical_axis(const OnnxValue& value, int64_t axis) {
  const int k = onnx_axis(axis, value.rank());
  if (value.layout != OnnxLayout::ChannelsLast || k == 0) return k;
  return k == 1 ? value.rank() - 1 : k - 1;
}

std::vector<size_t> OnnxImporter::flat_order(const std::vector<int64_t>& flat) {
  const int64_t channels = flat[0];
  const int64_t places = product(std::span(flat).subspan(1));
  std::vector<size_t> order;
  for (int64_t place = 0; place < places; ++place) {
    for (int64_t channel = 0; channel < channels; ++channel) {
      order.push_back(static_cast<size_t>(channel * places + place));
    }
  }
  return order;
}

namespace {

/// Appends the operands of a Concat of [n, ...] along axis 1 that are columns [begin, end) of
/// it, also of nested ones. Returns false if a part is cut.
bool append_parts(const Graph& graph, NodeId id, int64_t begin, int64_t end,
                  std::vector<NodeId>& parts, int depth = 0) {
  constexpr int max_depth = 8;
  const Node& node = graph[id];
  const auto* concat = std::get_if<Concat>(&node.op);
  if (concat == nullptr || depth > max_depth || node.type.shape.rank() != 2 ||
      (concat->axis != 1 && concat->axis != -1)) {
    return false;
  }
  int64_t at = 0;
  for (const NodeId part : node.operands) {
    const int64_t width = graph[part].type.shape[1];
    const int64_t first = std::max(begin, at), last = std::min(end, at + width);
    if (first == at && last == at + width) {
      parts.push_back(part);
    } else if (first < last &&
               !append_parts(graph, part, first - at, last - at, parts, depth + 1)) {
      return false;
    }
    at += width;
  }
  return true;
}

}  // namespace

std::optional<NodeId> OnnxImporter::selected_parts(const Slice& op, NodeId x) {
  const Shape shape = graph_[x].type.shape;
  if (op.axis != 1 || !op.end || shape.rank() < 2) return std::nullopt;
  while (std::holds_alternative<Reshape>(graph_[x].op)) x = graph_[x].operands[0];
  const int64_t each = shape.elements() / std::max<int64_t>(1, shape[0] * shape[1]);
  std::vector<NodeId> parts;
  if (graph_[x].type.shape[0] != shape[0] ||
      !append_parts(graph_, x, op.begin * each, *op.end * each, parts) || parts.empty() ||
      parts.size() > 64) {
    return std::nullopt;
  }
  const Concat join{.axis = 1, .count = static_cast<int>(parts.size())};
  const NodeId joined = parts.size() == 1 ? parts[0] : add(join, parts);
  const auto extents = shape.extents();
  std::vector<int64_t> target(extents.begin(), extents.end());
  target[0] = -1;
  target[1] = *op.end - op.begin;
  if (target.size() == 2) return joined;
  return add(Reshape{.shape = target}, {joined});
}

NodeId OnnxImporter::permuted(NodeId id, std::vector<int> permutation) {
  // Two Transposes are one, or none.
  const auto* before = std::get_if<Transpose>(&graph_[id].op);
  if (before != nullptr && graph_[id].label.empty() && !before->permutation.empty()) {
    for (int& axis : permutation) axis = before->permutation[static_cast<size_t>(axis)];
    id = graph_[id].operands[0];
  }
  const auto extents = graph_[id].type.shape.extents();
  std::vector<int> large;
  std::vector<int64_t> shape;
  for (const int axis : permutation) {
    const int64_t extent = extents[static_cast<size_t>(axis)];
    shape.push_back(axis == 0 ? 1 : extent);
    if (axis == 0 || extent != 1) large.push_back(axis);
  }
  if (std::ranges::is_sorted(permutation)) return id;
  if (!std::ranges::is_sorted(large)) {
    return add(Transpose{.permutation = std::move(permutation)}, {id});
  }
  return shaped(id, shape);
}

NodeId OnnxImporter::shaped(NodeId id, std::vector<int64_t> shape) {
  const auto same = [&] { return std::ranges::equal(shape, graph_[id].type.shape.extents()); };
  if (same()) return id;
  // The last of several Reshapes is enough.
  while (std::holds_alternative<Reshape>(graph_[id].op) && graph_[id].label.empty()) {
    id = graph_[id].operands[0];
  }
  if (same()) return id;
  shape[0] = -1;
  return add(Reshape{.shape = std::move(shape)}, {id});
}

namespace {

/// Largest extent along which elements are moved by a Gather.
constexpr int64_t max_gathered = 4096;

}  // namespace

NodeId OnnxImporter::arranged(const OnnxValue& value, std::span<const int> order) {
  const MovedAxes moved = moved_axes(value);
  const std::vector<int> factors = moved.in_order(order);
  std::vector<int64_t> wanted = {1};
  for (const int axis : order) wanted.push_back(value.shape[static_cast<size_t>(axis) + 1]);
  const MoveSteps steps = steps_to(moved, factors);
  if (steps.permutation.empty()) return shaped(value.id, wanted);
  const auto extents = graph_[value.id].type.shape.extents();
  const std::vector<int64_t> stored(extents.begin(), extents.end());
  if (stored == wanted) {
    MovedIndices along = along_one_axis(steps, stored, max_gathered);
    if (along.axis > 0) {
      return add(Gather{.axis = along.axis, .indices = std::move(along.indices)}, {value.id});
    }
  }
  std::vector<int> whole = whole_axes(moved, factors, stored, wanted);
  if (!whole.empty()) return shaped(permuted(value.id, std::move(whole)), wanted);
  require<FormatError>(std::ssize(steps.before) <= Shape::max_rank,
                       "it moves {} axes at once, at most {} are supported",
                       steps.before.size() - 1, Shape::max_rank - 1);
  return shaped(permuted(shaped(value.id, steps.before), steps.permutation), wanted);
}

OnnxValue OnnxImporter::to_same(OnnxValue value) {
  if (value.layout == OnnxLayout::Same) return value;
  std::vector<int> order(value.shape.size() - 1);
  std::iota(order.begin(), order.end(), 0);
  return {.id = arranged(value, order), .shape = value.shape};
}

OnnxValue OnnxImporter::to_channels_last(OnnxValue value) {
  require<FormatError>(value.rank() == 3 || value.rank() == 4,
                       "expected an input of rank 3 or 4, got rank {}{}", value.rank(),
                       value.rank() == 5 ? ": use layers over one or two axes" : "");
  if (value.layout == OnnxLayout::ChannelsLast) return value;
  return {.id = arranged(value, channels_last(value.rank())),
          .shape = value.shape,
          .layout = OnnxLayout::ChannelsLast};
}

MovedAxes OnnxImporter::moved_axes(const OnnxValue& value) {
  if (value.layout == OnnxLayout::Moved) return value.moved;
  // The axes of a sample before they were joined, and as stored.
  std::vector<int64_t> sample(value.shape.begin() + 1, value.shape.end());
  if (value.layout == OnnxLayout::Flat) sample = value.flat;
  const int axes = static_cast<int>(sample.size());
  MovedAxes moved{.factors = sample, .axes = {}};
  const bool last = value.layout != OnnxLayout::Same;
  if (last) std::rotate(moved.factors.begin(), moved.factors.begin() + 1, moved.factors.end());
  for (int k = 0; k < axes; ++k) moved.axes.push_back({last ? (k + axes - 1) % axes : k});
  if (value.layout == OnnxLayout::Flat) {
    std::vector<int> joined;
    for (const std::vector<int>& each : moved.axes) joined.push_back(each[0]);
    moved.axes = {joined};
  }
  return moved;
}

OnnxValue OnnxImporter::settled(const OnnxValue& value) {
  if (value.layout != OnnxLayout::Moved) return value;
  std::vector<int> same(value.shape.size() - 1);
  std::iota(same.begin(), same.end(), 0);
  const auto stays = [&](std::span<const int> order) {
    return std::ranges::is_sorted(value.moved.in_order(order));
  };
  if (stays(same)) return to_same(value);
  const bool image = value.rank() == 4 || (value.rank() == 3 && one_axis_);
  if (value.rank() >= 3 && (image || stays(channels_last(value.rank())))) {
    return {.id = arranged(value, channels_last(value.rank())),
            .shape = value.shape,
            .layout = OnnxLayout::ChannelsLast};
  }
  std::vector<int> all = value.moved.in_order(same);
  const auto first = std::ranges::min_element(all);
  std::vector<int64_t> flat = {1, 1};
  for (auto each = all.begin(); each != all.end(); ++each) {
    flat[each < first ? 0 : 1] *= value.moved.factors[static_cast<size_t>(*each)];
  }
  std::rotate(all.begin(), all.begin() + (first - all.begin()), all.end());
  if (value.rank() != 2 || !std::ranges::is_sorted(all)) return to_same(value);
  return {.id = shaped(value.id, value.shape),
          .shape = value.shape,
          .layout = OnnxLayout::Flat,
          .flat = std::move(flat)};
}

namespace {

/// Returns the rows for each sample of a Reshape to a leading extent, -1 if the elements tell,
/// 0 if it does not grow with the batch.
int64_t rows_of(int64_t first, int64_t from, int64_t declared_batch) {
  if (is_batch(first)) return batch_factor(first);
  if (first == 0) return from;
  if (first == -1) return -1;
  return declared_batch > 0 && first % declared_batch == 0 ? first / declared_batch : 0;
}

/// Returns the extents after a Reshape of `from` to `shape`, of which axis 0 has `rows` for
/// each sample.
std::vector<int64_t> reshaped_extents(const std::vector<int64_t>& from,
                                      const std::vector<int64_t>& shape, int64_t rows) {
  const int64_t elements = product(from);
  std::vector<int64_t> extents = shape;
  extents[0] = rows;
  for (size_t k = 1; k < extents.size(); ++k) {
    require<OnnxMixedSamples>(!is_batch(extents[k]), "axis {} takes the batch extent", k);
    if (extents[k] != 0) continue;
    require<FormatError>(k < from.size(), "extent {} is 0, but the input has no such axis", k);
    extents[k] = from[k];
  }
  const auto open = std::ranges::count(extents, -1);
  require<OnnxMixedSamples>(rows != 0 && open <= 1, "reshaping to {} would mix samples",
                            extents_text(shape));
  int64_t known = 1;
  for (const int64_t each : extents) known = onnx_product(known, each == -1 ? 1 : each);
  require<FormatError>(known > 0 && elements % known == 0 && (open == 1 || known == elements),
                       "{} elements of a sample do not fit {}", elements, extents_text(shape));
  std::ranges::replace(extents, int64_t{-1}, elements / known);
  return extents;
}

}  // namespace

OnnxValue OnnxImporter::reshaped_later(const OnnxValue& from,
                                       const std::vector<int64_t>& shape) {
  require<OnnxMixedSamples>(!shape.empty(), "reshaping to a scalar joins samples");
  const int64_t rows = rows_of(shape[0], from.shape[0], declared_batch_);
  require<FormatError>(std::ssize(shape) <= Shape::max_rank,
                       "rank {} is above the largest rank {}", shape.size(), Shape::max_rank);
  const std::vector<int64_t> extents = reshaped_extents(from.shape, shape, rows);
  if (extents == from.shape) return from;
  if (extents[0] != from.shape[0]) {
    return {.id = shaped(to_same(from).id, extents), .shape = extents};
  }
  OnnxValue result{.id = from.id, .shape = extents, .layout = OnnxLayout::Moved};
  result.moved = moved_axes(from);
  if (regroup(result.moved, std::span(extents).subspan(1))) return result;
  return {.id = shaped(to_same(from).id, extents), .shape = extents};
}

OnnxValue OnnxImporter::permuted_later(const OnnxValue& from, const std::vector<int>& axes) {
  const MovedAxes moved = moved_axes(from);
  OnnxValue result{.id = from.id, .shape = {from.shape[0]}, .layout = OnnxLayout::Moved};
  result.moved.factors = moved.factors;
  for (size_t k = 1; k < axes.size(); ++k) {
    const auto axis = static_cast<size_t>(axes[k]);
    result.shape.push_back(from.shape[axis]);
    result.moved.axes.push_back(moved.axes[axis - 1]);
  }
  return result;
}

OnnxValue OnnxImporter::reshaped(const OnnxValue& from, const std::vector<int64_t>& shape) {
  return settled(reshaped_later(from, shape));
}

}  // namespace qtape
