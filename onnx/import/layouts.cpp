// Layouts of imported values: conversions between them, and reshaping.
#include <fmt/format.h>

#include <algorithm>

#include "qtape/onnx/import/importer.h"

namespace qtape {
namespace {

int64_t product(std::span<const int64_t> extents) {
  int64_t result = 1;
  for (const int64_t each : extents) result *= each;
  return result;
}

/// Returns the permutation from [n, ..., c] to [n, c, ...].
std::vector<int> channels_first(int rank) {
  std::vector<int> permutation = {0, rank - 1};
  for (int axis = 1; axis + 1 < rank; ++axis) permutation.push_back(axis);
  return permutation;
}

std::vector<int> channels_last(int rank) {
  std::vector<int> permutation = {0};
  for (int axis = 2; axis < rank; ++axis) permutation.push_back(axis);
  permutation.push_back(1);
  return permutation;
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

NodeId OnnxImporter::permuted(NodeId id, std::vector<int> permutation) {
  const auto extents = graph_[id].type.shape.extents();
  std::vector<int> large;
  std::vector<int64_t> shape;
  for (const int axis : permutation) {
    const int64_t extent = extents[static_cast<size_t>(axis)];
    shape.push_back(axis == 0 ? -1 : extent);
    if (axis == 0 || extent != 1) large.push_back(axis);
  }
  if (std::ranges::is_sorted(permutation)) return id;
  if (!std::ranges::is_sorted(large)) {
    return add(Transpose{.permutation = std::move(permutation)}, {id});
  }
  if (std::ranges::equal(std::span(shape).subspan(1), extents.subspan(1))) return id;
  return add(Reshape{.shape = std::move(shape)}, {id});
}

OnnxValue OnnxImporter::to_same(OnnxValue value) {
  if (value.layout == OnnxLayout::Same) return value;
  if (value.layout == OnnxLayout::Flat) {
    std::vector<int64_t> extents = value.flat;
    std::rotate(extents.begin(), extents.begin() + 1, extents.end());
    extents.insert(extents.begin(), -1);
    NodeId id = add(Reshape{.shape = extents}, {value.id});
    id = permuted(id, channels_first(static_cast<int>(extents.size())));
    id = add(Reshape{.shape = {-1, value.shape[1]}}, {id});
    return {.id = id, .shape = value.shape};
  }
  return {.id = permuted(value.id, channels_first(value.rank())), .shape = value.shape};
}

OnnxValue OnnxImporter::to_channels_last(OnnxValue value) {
  require<FormatError>(value.rank() == 3 || value.rank() == 4,
                       "expected an input of rank 3 or 4, got rank {}", value.rank());
  if (value.layout == OnnxLayout::ChannelsLast) return value;
  return {.id = permuted(value.id, channels_last(value.rank())),
          .shape = value.shape,
          .layout = OnnxLayout::ChannelsLast};
}

namespace {

/// Returns the extents after a Reshape of `from` to `shape`, with batch extent 1.
std::vector<int64_t> reshaped_extents(const std::vector<int64_t>& from,
                                      const std::vector<int64_t>& shape, bool keeps_batch) {
  const int64_t elements = product(std::span(from).subspan(1));
  std::vector<int64_t> extents = shape;
  for (size_t k = 1; k < extents.size(); ++k) {
    require<FormatError>(extents[k] != onnx_batch, "axis {} takes the batch extent", k);
    if (extents[k] != 0) continue;
    require<FormatError>(k < from.size(), "extent {} is 0, but the input has no such axis", k);
    extents[k] = from[k];
  }
  const auto rest = std::span(extents).subspan(1);
  const auto open = std::ranges::count(rest, -1);
  require<FormatError>(keeps_batch && open <= 1 && (open == 0 || extents[0] != -1),
                       "reshaping to {} would mix samples", extents_text(shape));
  int64_t known = 1;
  for (const int64_t each : rest) known = onnx_product(known, each == -1 ? 1 : each);
  require<FormatError>(known > 0 && elements % known == 0 && (open == 1 || known == elements),
                       "{} elements of a sample do not fit {}", elements, extents_text(shape));
  std::ranges::replace(extents.begin() + 1, extents.end(), int64_t{-1}, elements / known);
  extents[0] = 1;
  return extents;
}

}  // namespace

OnnxValue OnnxImporter::reshaped(const OnnxValue& from, const std::vector<int64_t>& shape) {
  require<FormatError>(!shape.empty(), "reshaping to a scalar joins samples");
  const int64_t first = shape[0];
  const bool batch = first == onnx_batch || first == 0 || first == -1 ||
                     (declared_batch_ > 0 && first == declared_batch_);
  const std::vector<int64_t> extents = reshaped_extents(from.shape, shape, batch);
  if (extents == from.shape) return from;
  std::vector<int64_t> target = extents;
  target[0] = -1;
  if (from.layout != OnnxLayout::Same) {
    const std::vector<int64_t> sample =
        from.layout == OnnxLayout::Flat
            ? from.flat
            : std::vector<int64_t>(from.shape.begin() + 1, from.shape.end());
    // With a single channel or place, elements have the same order in both layouts.
    if (sample[0] == 1 || product(std::span(sample).subspan(1)) == 1) {
      return {.id = add(Reshape{.shape = target}, {from.id}), .shape = extents};
    }
    if (extents.size() >= 3 && extents[1] == sample[0]) {
      std::rotate(target.begin() + 1, target.begin() + 2, target.end());
      return {.id = add(Reshape{.shape = target}, {from.id}),
              .shape = extents,
              .layout = OnnxLayout::ChannelsLast};
    }
    if (extents.size() == 2) {
      return {.id = add(Reshape{.shape = target}, {from.id}),
              .shape = extents,
              .layout = OnnxLayout::Flat,
              .flat = sample};
    }
  }
  const OnnxValue same = to_same(from);
  return {.id = add(Reshape{.shape = target}, {same.id}), .shape = extents};
}

}  // namespace qtape
