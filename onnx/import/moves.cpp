// Operators that choose elements along axes: parts, repeats, borders, and blocks of images.
#include <fmt/format.h>

#include <algorithm>

#include "qtape/onnx/import/operators.h"
#include "qtape/onnx/import/quantized.h"

namespace qtape {
namespace {

struct MoveOperators : OnnxOperators {
  void slice();
  void split();
  void pad();
  void tile();
  void expand();
  void depth_to_space();
  void space_to_depth();

 private:
  /// Operand 0 with axes that can be addressed.
  OnnxValue addressed();
  OnnxValue constant_pad(OnnxValue a, const std::vector<int64_t>& pads);
  /// The pads of all axes, those before x first.
  std::vector<int64_t> all_pads(const OnnxValue& a);
  int64_t block_size();
};

/// Returns `extent` if a sum of two such values cannot overflow. Throws FormatError otherwise.
int64_t bounded(int64_t extent) {
  require<FormatError>(extent >= -Shape::max_elements && extent <= Shape::max_elements,
                       "{} exceeds the largest tensor", onnx_number(extent));
  return extent;
}

/// The index in 0..extent - 1 that a border element at `at` outside of x repeats.
int64_t mirrored(std::string_view mode, int64_t at, int64_t extent) {
  if (mode == "edge") return std::clamp<int64_t>(at, 0, extent - 1);
  const int64_t period = mode == "wrap" ? extent : std::max<int64_t>(1, 2 * (extent - 1));
  const int64_t within = (at % period + period) % period;
  return within < extent ? within : period - within;
}

}  // namespace

OnnxValue OnnxImporter::taken(OnnxValue a, int axis, int64_t first, int64_t step,
                              int64_t count) {
  int64_t& extent = a.shape[static_cast<size_t>(axis)];
  const int along = physical_axis(a, axis);
  if (step == 1 || count == 1) {
    if (count == extent) return a;
    a.id = add(Slice{.axis = along, .begin = first, .end = first + count}, {a.id});
    extent = count;
    return a;
  }
  spend(count);
  std::vector<int64_t> indices;
  for (int64_t k = 0; k < count; ++k) indices.push_back(first + k * step);
  return taken(std::move(a), axis, std::move(indices));
}

OnnxValue OnnxImporter::taken(OnnxValue a, int axis, std::vector<int64_t> indices) {
  int64_t& extent = a.shape[static_cast<size_t>(axis)];
  bool follows = true;
  for (size_t k = 1; k < indices.size(); ++k)
    follows = follows && indices[k] == indices[k - 1] + 1;
  if (follows) return taken(a, axis, indices[0], 1, std::ssize(indices));
  extent = std::ssize(indices);
  a.id = add(Gather{.axis = physical_axis(a, axis), .indices = std::move(indices)}, {a.id});
  return a;
}

OnnxValue OnnxImporter::repeated(OnnxValue value, size_t axis, int64_t count) {
  spend(count);
  return taken(std::move(value), static_cast<int>(axis),
               std::vector<int64_t>(static_cast<size_t>(count), 0));
}

OnnxValue MoveOperators::addressed() {
  OnnxValue a = x();
  return a.layout == OnnxLayout::Flat ? to.to_same(a) : a;
}

void MoveOperators::slice() {
  const auto starts = to.integers_or(node, "starts", 1);
  const auto ends = to.integers_or(node, "ends", 2);
  const auto named = to.integers_or(node, "axes", 3);
  const auto steps = to.integers_or(node, "steps", 4);
  require<FormatError>(starts && ends && starts->size() == ends->size() &&
                           (!named || named->size() == starts->size()) &&
                           (!steps || steps->empty() || steps->size() == starts->size()),
                       "starts, ends, axes and steps must have the same length");
  const auto step_of = [&](size_t k) { return steps && !steps->empty() ? (*steps)[k] : 1; };
  OnnxValue a = addressed();
  for (size_t k = 0; k < starts->size(); ++k) {
    const int axis = onnx_axis(named ? (*named)[k] : static_cast<int64_t>(k), a.rank());
    const int64_t extent = a.shape[static_cast<size_t>(axis)], step = step_of(k);
    require<FormatError>(step != 0 && step > -Shape::max_elements && step < Shape::max_elements,
                         "a step of {} is not supported", onnx_number(step));
    const auto within = [&](int64_t at) {
      const int64_t low = step > 0 ? 0 : -1;
      return std::clamp<int64_t>(at < 0 ? std::max<int64_t>(at, -extent - 1) + extent : at, low,
                                 extent + low);
    };
    if (axis == 0 && step == 1 && keeps_samples((*starts)[k], (*ends)[k])) continue;
    require<OnnxMixedSamples>(axis != 0, "axis 0 would split the batch");
    require<FormatError>(!is_batch((*starts)[k]) && !is_batch((*ends)[k]),
                         "a range of axis {} depends on the number of samples", axis);
    const int64_t begin = within((*starts)[k]), end = within((*ends)[k]);
    const int64_t count =
        step > 0 ? (end - begin + step - 1) / step : (begin - end - step - 1) / -step;
    require<FormatError>(count > 0, "it leaves no elements of axis {}", axis);
    a = to.taken(std::move(a), axis, begin, step, count);
  }
  give(std::move(a));
}

/// Selects any constant indices; a single index of rank 0 removes the axis, those of rank 2
/// split it.
void OnnxOperators::gather_values() {
  const int64_t along = node.integer("axis", 0);
  const OnnxConstant& indices = to.constant(node, 1);
  expect(!indices.is_float && !indices.integers.empty(), "indices must be integers");
  OnnxValue a = x();
  if (a.layout == OnnxLayout::Flat) a = to.to_same(a);
  const int axis = onnx_axis(along, a.rank());
  require<OnnxMixedSamples>(axis != 0, "axis 0 would split the batch");
  const int64_t extent = a.shape[static_cast<size_t>(axis)];
  std::vector<int64_t> places;
  for (const int64_t at : indices.integers) {
    require<FormatError>(at >= -extent && at < extent, "index {} is out of range for {}",
                         onnx_number(at), extent);
    places.push_back(at < 0 ? at + extent : at);
  }
  to.spend(std::ssize(places));
  a = to.taken(std::move(a), axis, std::move(places));
  if (indices.shape.rank() == 1) return give(std::move(a));
  std::vector<int64_t> shape = a.shape;
  shape[0] = 0;  // as the input
  const auto of = indices.shape.extents();
  shape.insert(shape.erase(shape.begin() + axis), of.begin(), of.end());
  give(to.reshaped_later(a, shape));
}

std::vector<int64_t> OnnxOperators::split_sizes(int64_t extent) {
  (void)node.has("num_outputs");
  const auto given = to.integers_or(node, "split", 1);
  const int64_t each = (extent + node.outputs() - 1) / node.outputs();
  std::vector<int64_t> sizes = given.value_or(std::vector<int64_t>());
  for (int k = 0; !given && k < node.outputs(); ++k) {
    sizes.push_back(std::min(each, extent - each * k));
  }
  int64_t left = extent;
  bool fits = sizes.size() == static_cast<size_t>(node.outputs());
  for (const int64_t size : sizes) {
    fits = fits && size >= 1 && size <= left;
    left -= fits ? size : 0;
  }
  require<FormatError>(fits && left == 0, "{} does not split an extent of {} among {} outputs",
                       extents_text(sizes), extent, node.outputs());
  return sizes;
}

void MoveOperators::split() {
  const int64_t along = node.integer("axis", 0);
  const OnnxValue a = addressed();
  const int axis = onnx_axis(along, a.rank());
  require<OnnxMixedSamples>(axis != 0, "axis 0 would split the batch");
  give_parts(a.shape[static_cast<size_t>(axis)],
             [&](int64_t begin, int64_t size) { return to.taken(a, axis, begin, 1, size); });
}

std::vector<int64_t> MoveOperators::all_pads(const OnnxValue& a) {
  const auto given = to.integers_or(node, "pads", 1);
  std::vector<int64_t> axes;
  for (int k = 0; k < a.rank(); ++k) axes.push_back(k);
  if (to.has_input(node, 3)) axes = to.integers(node, 3);
  require<FormatError>(given && given->size() == 2 * axes.size(),
                       "expected {} pads for {} axes", 2 * axes.size(), axes.size());
  std::vector<int64_t> all(2 * a.shape.size(), 0);
  for (size_t k = 0; k < axes.size(); ++k) {
    const auto axis = static_cast<size_t>(onnx_axis(axes[k], a.rank()));
    all[axis] = bounded((*given)[k]);
    all[a.shape.size() + axis] = bounded((*given)[axes.size() + k]);
  }
  require<FormatError>(all[0] == 0 && all[a.shape.size()] == 0,
                       "axis 0 cannot be padded by {} and {}", all[0], all[a.shape.size()]);
  return all;
}

OnnxValue MoveOperators::constant_pad(OnnxValue a, const std::vector<int64_t>& pads) {
  float border = node.real("value", 0);
  if (to.holds_codes(node.input(0))) {
    border = onnx_value_of_code(to, a.id, to.integer(node, 2, 0));
  } else if (to.has_input(node, 2)) {
    border = to.floats(node, 2, 1)[0];
  }
  const size_t rank = a.shape.size();
  std::vector<int64_t> begin(rank), end(rank);
  bool any = false;
  for (size_t k = 0; k < rank; ++k) {
    const auto lies =
        static_cast<size_t>(OnnxImporter::physical_axis(a, static_cast<int64_t>(k)));
    begin[lies] = std::max<int64_t>(0, pads[k]);
    end[lies] = std::max<int64_t>(0, pads[rank + k]);
    a.shape[k] += begin[lies] + end[lies];
    any = any || begin[lies] + end[lies] > 0;
  }
  if (any)
    a.id = to.add(Pad{.begin = Shape(begin), .end = Shape(end), .value = border}, {a.id});
  return a;
}

/// Negative pads leave out elements, which comes first.
void MoveOperators::pad() {
  const std::string mode = node.text("mode", "constant");
  expect(mode == "constant" || mode == "reflect" || mode == "edge" || mode == "wrap",
         "mode {} is not supported", printable(mode));
  (void)node.has("value");
  OnnxValue a = addressed();
  const std::vector<int64_t> pads = all_pads(a);
  const size_t rank = a.shape.size();
  for (size_t k = 1; k < rank; ++k) {
    const int64_t cut = std::max<int64_t>(0, -pads[k]);
    const int64_t left = a.shape[k] - cut - std::max<int64_t>(0, -pads[rank + k]);
    require<FormatError>(left > 0, "pads {} and {} leave no elements of axis {}", pads[k],
                         pads[rank + k], k);
    a = to.taken(std::move(a), static_cast<int>(k), cut, 1, left);
  }
  if (mode == "constant") return give(constant_pad(std::move(a), pads));
  for (size_t k = 1; k < rank; ++k) {
    const int64_t before = std::max<int64_t>(0, pads[k]);
    const int64_t after = std::max<int64_t>(0, pads[rank + k]);
    const int64_t extent = a.shape[k];
    if (before + after == 0) continue;
    to.spend(extent + before + after);
    std::vector<int64_t> places;
    for (int64_t at = -before; at < extent + after; ++at) {
      places.push_back(mirrored(mode, at, extent));
    }
    a = to.taken(std::move(a), static_cast<int>(k), std::move(places));
  }
  give(std::move(a));
}

void MoveOperators::tile() {
  const std::vector<int64_t> repeats = to.integers(node, 1);
  OnnxValue a = addressed();
  require<FormatError>(repeats.size() == a.shape.size() && repeats[0] == 1,
                       "repeats {} must have one number for each of {} axes, and 1 for axis 0",
                       extents_text(repeats), a.rank());
  for (size_t k = 1; k < repeats.size(); ++k) {
    require<FormatError>(repeats[k] >= 1, "{} repeats are not supported",
                         onnx_number(repeats[k]));
    const int64_t extent = a.shape[k];
    if (repeats[k] == 1) continue;
    const int64_t count = onnx_product(extent, repeats[k]);
    to.spend(count);
    std::vector<int64_t> places;
    for (int64_t i = 0; i < count; ++i) places.push_back(i % extent);
    a = to.taken(std::move(a), static_cast<int>(k), std::move(places));
  }
  give(std::move(a));
}

/// Repeats axes of extent 1.
void MoveOperators::expand() {
  const std::vector<int64_t> shape = to.integers(node, 1);
  OnnxValue a = addressed();
  require<OnnxMixedSamples>(std::ssize(shape) <= a.rank(),
                            "{} has more axes than {}: they would come before the samples",
                            extents_text(shape), extents_text(a.shape));
  const size_t first = a.shape.size() - shape.size();
  for (size_t k = 0; k < shape.size(); ++k) {
    const size_t axis = first + k;
    const bool batch =
        axis == 0 && (shape[k] == onnx_batch || shape[k] == 1 ||
                      (to.declared_batch() > 0 && shape[k] == to.declared_batch()));
    if (batch || shape[k] == 1 || (axis > 0 && shape[k] == a.shape[axis])) continue;
    require<FormatError>(axis > 0 && a.shape[axis] == 1 && shape[k] > 0,
                         "{} cannot be expanded to {}", extents_text(a.shape),
                         extents_text(shape));
    a = to.repeated(std::move(a), axis, shape[k]);
  }
  give(std::move(a));
}

int64_t MoveOperators::block_size() {
  const int64_t size = node.integer("blocksize", 0);
  require<FormatError>(size >= 1 && size <= (1 << 16), "a blocksize of {} is not supported",
                       size);
  return size;
}

/// Images as [n, axes..., h, axes..., w, axes...] whose axes are permuted.
void MoveOperators::depth_to_space() {
  const int64_t b = block_size();
  const std::string mode = node.text("mode", "DCR");
  expect(mode == "DCR" || mode == "CRD", "mode {} is not supported", printable(mode));
  const OnnxValue a = moved_x();
  require<FormatError>(a.rank() == 4 && a.shape[1] % (b * b) == 0, "blocks of {} do not fit {}",
                       b, extents_text(a.shape));
  const int64_t c = a.shape[1] / (b * b), h = a.shape[2], w = a.shape[3];
  const bool first = mode == "DCR";
  OnnxValue blocks = to.reshaped_later(a, first ? std::vector<int64_t>{0, b, b, c, h, w}
                                                : std::vector<int64_t>{0, c, b, b, h, w});
  blocks = to.permuted_later(
      blocks, first ? std::vector<int>{0, 3, 4, 1, 5, 2} : std::vector<int>{0, 1, 4, 2, 5, 3});
  give(to.reshaped_later(blocks, {0, c, onnx_product(h, b), onnx_product(w, b)}));
}

void MoveOperators::space_to_depth() {
  const int64_t b = block_size();
  const OnnxValue a = moved_x();
  require<FormatError>(a.rank() == 4 && a.shape[2] % b == 0 && a.shape[3] % b == 0,
                       "blocks of {} do not fit {}", b, extents_text(a.shape));
  const int64_t c = a.shape[1], h = a.shape[2] / b, w = a.shape[3] / b;
  OnnxValue blocks = to.reshaped_later(a, {0, c, h, b, w, b});
  blocks = to.permuted_later(blocks, {0, 3, 5, 1, 2, 4});
  give(to.reshaped_later(blocks, {0, onnx_product(c, b * b), h, w}));
}

namespace {

constexpr OnnxOperator move_rows[] = {
    {"Slice", convert<&MoveOperators::slice>},
    {"Split", convert<&MoveOperators::split>},
    {"Pad", convert<&MoveOperators::pad>},
    {"Tile", convert<&MoveOperators::tile>},
    {"Expand", convert<&MoveOperators::expand>},
    {"DepthToSpace", convert<&MoveOperators::depth_to_space>},
    {"SpaceToDepth", convert<&MoveOperators::space_to_depth>}};

}  // namespace

std::span<const OnnxOperator> move_conversions() { return move_rows; }

}  // namespace qtape
