// Reshapes and reductions of values whose batch is not their first axis. The axis of the batch
// may have several rows for each sample, such as the heads of attention.
#include <algorithm>
#include <array>
#include <span>
#include <utility>
#include <vector>

#include "qtape/core/error.h"
#include "qtape/onnx/attributes.h"
#include "qtape/onnx/import/operators.h"

namespace qtape {
namespace {

std::vector<int64_t> stored_extents(const std::vector<int64_t>& shape, int batch) {
  std::vector<int64_t> extents = {-1};
  for (int k = 0; k < std::ssize(shape); ++k) {
    if (k != batch) extents.push_back(shape[static_cast<size_t>(k)]);
  }
  return extents;
}

/// Returns the product of the extents before the axis of the batch, and that from it on.
std::pair<int64_t, int64_t> products_around(const OnnxValue& a) {
  const auto [before, rest] =
      std::pair(std::span(a.shape).first(static_cast<size_t>(a.batch)),
                std::span(a.shape).subspan(static_cast<size_t>(a.batch)));
  return {onnx_product(before), onnx_product(rest)};
}

/// The axis of the batch in the shape of a Reshape.
struct BatchPlace {
  int axis = -1;
  int64_t rows = 0;  ///< for each sample
};

/// Returns the rows that extent `extent` of axis `axis` has for each of the `samples` of a file
/// with a fixed batch; 0 if it cannot be the batch axis of a reshaped `a`.
int64_t declared_rows(const OnnxValue& a, const std::vector<int64_t>& shape, int axis,
                      int64_t samples) {
  const int64_t extent = shape[static_cast<size_t>(axis)];
  if (axis != a.batch || samples <= 0 || extent <= 0 || extent % samples != 0) return 0;
  const int64_t rows = extent / samples;
  if (rows == a.shape[static_cast<size_t>(axis)]) return rows;
  const auto first = std::span(shape).first(static_cast<size_t>(axis));
  const auto [before, all] = products_around(a);
  const bool known = std::ranges::none_of(first, [](int64_t each) { return each < 0; });
  return known && onnx_product(first) == before && all % rows == 0 ? rows : 0;
}

/// Returns the axis of the only open extent if the axes before it hold what is before the batch
/// of `a`, so that it counts samples.
BatchPlace open_axis(const OnnxValue& a, const std::vector<int64_t>& shape) {
  const auto open = std::ranges::find(shape, -1);
  if (open == shape.end() || std::find(open + 1, shape.end(), -1) != shape.end()) return {};
  const auto [before, all] = products_around(a);
  const int64_t rest = onnx_product(std::span(open + 1, shape.end()));
  if (onnx_product(std::span(shape.begin(), open)) != before || rest <= 0 || all % rest != 0) {
    return {};
  }
  return {static_cast<int>(open - shape.begin()), all / rest};
}

/// Finds the axis of the batch, and replaces extents of 0 by those of `a`. Throws
/// OnnxMixedSamples if there is not exactly one.
BatchPlace find_batch(const OnnxValue& a, std::vector<int64_t>& shape, bool literal,
                      int64_t samples) {
  BatchPlace found;
  for (int k = 0; k < std::ssize(shape); ++k) {
    int64_t& extent = shape[static_cast<size_t>(k)];
    const bool copied = extent == 0 && !literal;
    require<FormatError>(!copied || k < a.rank(),
                         "extent {} is 0, but the input has no such axis", k);
    if (copied) extent = a.shape[static_cast<size_t>(k)];
    const int64_t rows = is_batch(extent)         ? batch_factor(extent)
                         : copied && k == a.batch ? extent
                                                  : declared_rows(a, shape, k, samples);
    if (rows == 0) continue;
    require<OnnxMixedSamples>(found.axis < 0, "reshaping {} to {} would mix samples",
                              extents_text(a.shape), extents_text(shape));
    found = {k, rows};
  }
  if (found.axis < 0) found = open_axis(a, shape);
  require<OnnxMixedSamples>(found.axis >= 0, "reshaping to {} would mix samples",
                            extents_text(shape));
  return found;
}

}  // namespace

void OnnxOperators::give_reshaped(const OnnxValue& from, std::vector<int64_t> shape,
                                  int batch) {
  OnnxValue result{.id = from.id, .shape = std::move(shape)};
  result.batch = batch;
  const auto extents = stored_extents(result.shape, batch);
  const Shape& stored = to.graph()[from.id].type.shape;
  if (!std::ranges::equal(stored.extents().subspan(1), std::span(extents).subspan(1))) {
    result.id = to.add(Reshape{.shape = extents}, {from.id});
  }
  give(std::move(result));
}

NodeId OnnxOperators::with_rows(const OnnxValue& a, int64_t rows) {
  const int64_t own = a.shape[static_cast<size_t>(a.batch)];
  if (own == rows) return a.id;
  const auto products = products_around(a);
  const int64_t before = products.first, all = products.second;
  const auto exchanged = [&](NodeId id, int64_t first, int64_t second, int64_t last) {
    id = to.add(Reshape{.shape = {-1, first, second, last}}, {id});
    return to.permuted(id, {0, 2, 1, 3});
  };
  NodeId id = a.id;
  if (own > 1) id = exchanged(id, own, before, all / own);
  if (rows > 1) id = exchanged(id, before, rows, all / rows);
  return to.add(Reshape{.shape = {-1, before, all / rows}}, {id});
}

void OnnxOperators::reshape_sequences(const OnnxValue& a, std::vector<int64_t> shape,
                                      bool literal) {
  if (join_steps(a, shape)) return;
  const std::vector<int64_t> given = shape;
  const BatchPlace batch = find_batch(a, shape, literal, to.declared_batch());
  const auto [before, all] = products_around(a);
  shape[static_cast<size_t>(batch.axis)] = batch.rows;
  bool fits = all % batch.rows == 0;
  for (const auto& [begin, end, elements] :
       {std::array<int64_t, 3>{0, batch.axis, before},
        std::array<int64_t, 3>{batch.axis + 1, std::ssize(shape), all / batch.rows}}) {
    fits = fits && onnx_fill(std::span(shape.begin() + begin, shape.begin() + end), elements);
  }
  require<OnnxMixedSamples>(fits, "reshaping {} to {} would mix samples", extents_text(a.shape),
                            extents_text(given));
  OnnxValue from = a;
  from.id = with_rows(a, batch.rows);
  give_reshaped(from, std::move(shape), batch.axis);
}

void OnnxOperators::reduce_sequences() const {
  const OnnxValue a = to.value(node, 0);
  const std::optional<std::vector<int64_t>> axes = to.integers_or(node, "axes", 1);
  (void)node.has("noop_with_empty_axes");
  const bool keeps = node.integer("keepdims", 1) != 0;
  onnx::NodeProto first = node.proto();
  first.clear_attribute();
  for (const auto& each : node.proto().attribute()) {
    if (each.name() != "axes") *first.add_attribute() = each;
  }
  int batch = a.batch;
  if (axes && !axes->empty()) {
    std::vector<int64_t> shown;
    for (const int64_t each : *axes) {
      const int axis = onnx_axis(each, a.rank());
      require<OnnxMixedSamples>(axis != a.batch, "axis {} would join samples", axis);
      shown.push_back(axis < a.batch ? axis + 1 : axis);
      if (axis < a.batch && !keeps) --batch;
    }
    set_attribute(first, "axes", shown);
  }
  const OnnxNode with_batch_first(first);
  to.with_batch_first(node, batch, [&] {
    OnnxOperators{to, with_batch_first, reasons}.convert_by_family();
  });
}

}  // namespace qtape
