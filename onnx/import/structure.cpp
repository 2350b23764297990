#include <fmt/format.h>

#include <algorithm>
#include <cmath>
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
  void slice();
  void pad();
  void split();
  void resize();
};

/// Returns `extent` if a sum of two such values cannot overflow. Throws FormatError otherwise.
int64_t bounded(int64_t extent) {
  require<FormatError>(extent >= -Shape::max_elements && extent <= Shape::max_elements,
                       "{} exceeds the largest tensor", onnx_number(extent));
  return extent;
}

}  // namespace

void StructureOperators::concat() {
  const int64_t given = node.integer("axis", 0);
  if (to.reads_constants(node)) {
    std::vector<int64_t> all;
    for (int k = 0; k < node.inputs(); ++k) {
      const std::vector<int64_t> part = to.integers(node, k);
      all.insert(all.end(), part.begin(), part.end());
    }
    return give_integers(std::move(all));
  }
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
  if (!constant_input()) return give(to.reshaped(x(), shape));
  settle();
  OnnxConstant result = to.constant(node, 0);
  std::vector<int64_t> extents = shape;
  for (size_t k = 0; !literal && k < extents.size(); ++k) {
    if (extents[k] != 0) continue;
    require<FormatError>(static_cast<int>(k) < result.shape.rank(),
                         "extent {} is 0, but the input has no such axis", k);
    extents[k] = result.shape[static_cast<int>(k)];
  }
  int64_t known = 1;
  for (const int64_t each : extents) known = onnx_product(known, each == -1 ? 1 : each);
  if (known > 0) std::ranges::replace(extents, int64_t{-1}, result.shape.elements() / known);
  const bool open = std::ranges::find(extents, -1) != extents.end();
  require<FormatError>(!open && Shape(extents).elements() == result.shape.elements(),
                       "{} elements do not fit {}", result.shape.elements(),
                       extents_text(shape));
  result.shape = Shape(extents);
  to.add_constant(node.output(0), std::move(result));
}

void StructureOperators::flatten() {
  const int64_t axis = node.integer("axis", 1);
  const OnnxValue a = x();
  require<FormatError>(axis == 1 || axis == 1 - a.rank(), "axis {} would join samples", axis);
  give(to.reshaped(a, {onnx_batch, -1}));
}

void StructureOperators::squeeze() {
  const auto axes = to.integers_or(node, "axes", 1);
  if (constant_input()) return same();
  expect(axes.has_value(), "without axes it may join samples; specify them");
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

void StructureOperators::unsqueeze() {
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

void StructureOperators::transpose() {
  if (constant_input()) {
    const OnnxConstant& matrix = to.constant(node, 0);
    require<FormatError>(matrix.shape.rank() == 2 &&
                             node.integers("perm").value_or(std::vector<int64_t>{1, 0}) ==
                                 std::vector<int64_t>{1, 0},
                         "only constants that are matrices can be transposed");
    OnnxConstant result{.shape = {matrix.shape[1], matrix.shape[0]},
                        .is_float = matrix.is_float};
    result.floats = transposed(matrix.floats, matrix.shape[0], matrix.shape[1]);
    result.integers = transposed(matrix.integers, matrix.shape[0], matrix.shape[1]);
    return to.add_constant(node.output(0), std::move(result));
  }
  const auto given = node.integers("perm");
  expect(given && !given->empty() && (*given)[0] == 0,
         "it must leave axis 0, the batch axis, in place");
  OnnxValue a = x();
  if (a.layout == OnnxLayout::Flat) a = to.to_same(a);
  std::vector<int64_t> axes(a.shape.size());
  std::iota(axes.begin(), axes.end(), 0);
  require<FormatError>(std::ranges::is_permutation(*given, axes),
                       "perm {} is not a permutation of the axes of {}", extents_text(*given),
                       extents_text(a.shape));
  std::vector<int> permutation;
  OnnxValue result{.id = a.id, .shape = {}};
  for (const int64_t each : *given) {
    const int axis = onnx_axis(each, a.rank());
    permutation.push_back(OnnxImporter::physical_axis(a, axis));
    result.shape.push_back(a.shape[static_cast<size_t>(axis)]);
  }
  result.id = to.permuted(a.id, std::move(permutation));
  give(std::move(result));
}

void StructureOperators::slice() {
  const auto starts = to.integers_or(node, "starts", 1);
  const auto ends = to.integers_or(node, "ends", 2);
  const auto named = to.integers_or(node, "axes", 3);
  const auto steps = to.integers_or(node, "steps", 4);
  require<FormatError>(starts && ends && starts->size() == ends->size() &&
                           (!named || named->size() == starts->size()),
                       "starts, ends and axes must have the same length");
  if (constant_input()) {
    require<FormatError>(starts->size() == 1 && (!named || named->at(0) == 0),
                         "constants can be sliced only along axis 0");
    return slice_constant((*starts)[0], (*ends)[0], steps && !steps->empty() ? (*steps)[0] : 1);
  }
  for (const int64_t step : steps.value_or(std::vector<int64_t>{})) {
    expect(step == 1, "a step of {} is not supported", onnx_number(step));
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
    require<FormatError>(axis != 0 && begin < end, "it leaves no elements of axis {}", axis);
    if (begin == 0 && end == extent) continue;
    a.id =
        to.add(Slice{.axis = OnnxImporter::physical_axis(a, axis), .begin = begin, .end = end},
               {a.id});
    extent = end - begin;
  }
  give(std::move(a));
}

void StructureOperators::pad() {
  const std::string mode = node.text("mode", "constant");
  expect(mode == "constant", "mode {} is not supported", printable(mode));
  const auto pads = to.integers_or(node, "pads", 1);
  float border = node.real("value", 0);
  if (to.has_input(node, 2)) border = to.floats(node, 2, 1)[0];
  OnnxValue a = x();
  if (a.layout == OnnxLayout::Flat) a = to.to_same(a);
  const size_t rank = a.shape.size();
  require<FormatError>(pads && pads->size() == 2 * rank && !to.has_input(node, 3),
                       "expected {} pads for all axes", 2 * rank);
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

void StructureOperators::split() {
  const int64_t along = node.integer("axis", 0);
  (void)node.has("num_outputs");
  const auto given = to.integers_or(node, "split", 1);
  OnnxValue a = x();
  if (a.layout == OnnxLayout::Flat) a = to.to_same(a);
  const int axis = onnx_axis(along, a.rank());
  require<FormatError>(axis != 0, "axis 0 would split the batch");
  const int64_t extent = a.shape[static_cast<size_t>(axis)];
  const int64_t each = (extent + node.outputs() - 1) / node.outputs();
  std::vector<int64_t> sizes = given.value_or(std::vector<int64_t>());
  for (int k = 0; !given && k < node.outputs(); ++k) {
    sizes.push_back(std::min(each, extent - each * k));
  }
  int64_t begin = 0;
  for (size_t k = 0; k < sizes.size(); ++k) {
    const int64_t size = sizes[k];
    const bool last = k + 1 == sizes.size();
    require<FormatError>(size >= 1 && size <= extent - begin &&
                             (!last || begin + size == extent) &&
                             sizes.size() == static_cast<size_t>(node.outputs()),
                         "{} does not split an extent of {} among {} outputs",
                         extents_text(sizes), extent, node.outputs());
    OnnxValue part = a;
    part.shape[static_cast<size_t>(axis)] = size;
    const Slice op{
        .axis = OnnxImporter::physical_axis(a, axis), .begin = begin, .end = begin + size};
    if (to.is_needed(node.output(static_cast<int>(k)))) {
      part.id = to.add(op, {a.id});
      give(std::move(part), static_cast<int>(k));
    }
    begin += size;
  }
}

namespace {

/// Returns `scale` if it is an integer, else 0.
int64_t whole(double scale) {
  constexpr double most = 1 << 16;
  return scale >= 1 && scale <= most && scale == std::floor(scale) ? static_cast<int64_t>(scale)
                                                                   : 0;
}

}  // namespace

/// Converts nearest-neighbour resizing with integer factors.
void StructureOperators::resize() {
  const bool upsample = node.type() == "Upsample";
  const std::string mode = node.text("mode", "nearest");
  const std::string place =
      node.text("coordinate_transformation_mode", upsample ? "asymmetric" : "half_pixel");
  const std::string nearest =
      node.text("nearest_mode", upsample ? "floor" : "round_prefer_floor");
  for (const char* unused : {"cubic_coeff_a", "exclude_outside", "extrapolation_value"}) {
    (void)node.has(unused);
  }
  const bool repeats = (place == "asymmetric" && nearest == "floor") ||
                       ((place == "half_pixel" || place == "pytorch_half_pixel") &&
                        nearest.starts_with("round"));
  expect(mode == "nearest" && repeats,
         "mode {} with {} and {} is not supported: use nearest with an integer factor",
         printable(mode), printable(place), printable(nearest));
  expect(!node.has("axes") && !node.has("antialias") && !node.has("keep_aspect_ratio_policy"),
         "attributes axes, antialias and keep_aspect_ratio_policy are not supported");
  const int scales = upsample || to.opset() < 11 ? 1 : 2;
  const bool by_sizes = !upsample && to.has_input(node, 3);
  const OnnxValue a = to.to_channels_last(x());
  std::vector<double> factors;
  if (by_sizes) {
    const std::vector<int64_t> sizes = to.integers(node, 3);
    for (size_t k = 0; k < sizes.size() && k < a.shape.size(); ++k) {
      const bool batch = k == 0 && (sizes[0] == onnx_batch || sizes[0] == to.declared_batch());
      factors.push_back(
          batch ? 1 : static_cast<double>(sizes[k]) / static_cast<double>(a.shape[k]));
    }
  } else {
    for (const float each : to.floats(node, scales, a.rank())) {
      factors.push_back(static_cast<double>(each));
    }
  }
  std::vector<int64_t> factor;
  for (const double each : factors) factor.push_back(whole(each));
  require<FormatError>(
      factor.size() == a.shape.size() && std::ranges::find(factor, 0) == factor.end() &&
          factor[0] == 1 && factor[1] == 1,
      "factors [{}] are not supported: use integer spatial factors", fmt::join(factors, ", "));
  OnnxValue result = a;
  for (size_t k = 2; k < factor.size(); ++k) {
    result.shape[k] = onnx_product(result.shape[k], factor[k]);
  }
  result.id =
      to.add(Upsample{.factor = Shape(std::vector<int64_t>(factor.begin() + 2, factor.end()))},
             {a.id});
  give(std::move(result));
}

namespace {

constexpr OnnxOperator structure_rows[] = {
    {"Concat", convert<&StructureOperators::concat>},
    {"Reshape", convert<&StructureOperators::reshape>},
    {"Flatten", convert<&StructureOperators::flatten>},
    {"Squeeze", convert<&StructureOperators::squeeze>},
    {"Unsqueeze", convert<&StructureOperators::unsqueeze>},
    {"Transpose", convert<&StructureOperators::transpose>},
    {"Slice", convert<&StructureOperators::slice>},
    {"Pad", convert<&StructureOperators::pad>},
    {"Split", convert<&StructureOperators::split>},
    {"Resize", convert<&StructureOperators::resize>},
    {"Upsample", convert<&StructureOperators::resize>}};

}  // namespace

std::span<const OnnxOperator> structure_conversions() { return structure_rows; }

}  // namespace qtape
