// Constants that are parts or rearrangements of other constants.
#include <algorithm>
#include <numeric>

#include "qtape/onnx/import/folds.h"

namespace qtape {
namespace {

struct StructureFolds : FoldOperators {
  void size();
  void identity();
  void reshape();
  void flatten();
  void squeeze();
  void unsqueeze();
  void transpose();
  void concat();
  void split();
  void slice();
  void gather();
  void gather_nd();

  void give_reshaped(const std::vector<int64_t>& extents);
};

/// Returns an index that counts from the end if negative. Throws FormatError if it is outside.
int64_t resolved(int64_t index, int64_t extent) {
  require<FormatError>(index >= -extent && index < extent, "index {} is out of range for {}",
                       onnx_number(index), extent);
  return index < 0 ? index + extent : index;
}

/// Returns the places of elements of `shape` at positions `at` of `axis`.
std::vector<size_t> places_along(const Shape& shape, int axis, const std::vector<int64_t>& at) {
  const Sides sides(shape, axis);
  std::vector<size_t> places;
  places.reserve(static_cast<size_t>(sides.outer * sides.inner) * at.size());
  for (int64_t outer = 0; outer < sides.outer; ++outer) {
    for (const int64_t k : at) {
      for (int64_t inner = 0; inner < sides.inner; ++inner) {
        places.push_back(static_cast<size_t>((outer * shape[axis] + k) * sides.inner + inner));
      }
    }
  }
  return places;
}

}  // namespace

void StructureFolds::size() {
  OnnxConstant result{.is_float = false};
  const int64_t elements = input(0).shape.elements();
  result.integers = {input(0).batch_axis < 0 ? elements : batch_times(elements)};
  to.add_constant(node.output(0), std::move(result));
}

void StructureFolds::identity() {
  to.keep_codes(node.input(0));
  to.add_constant(node.output(0), input(0));
  to.set_origin(node.output(0), node.input(0));
}

void StructureFolds::give_reshaped(const std::vector<int64_t>& extents) {
  OnnxConstant result = input(0);
  require<FormatError>(result.batch_axis < 0,
                       "a constant with the batch extent along axis {} is not supported",
                       result.batch_axis);
  for (const int64_t each : extents) {
    require<FormatError>(each >= 0, "extent {} is not a valid number of elements",
                         onnx_number(each));
  }
  const Shape shape(extents);
  require<FormatError>(shape.elements() == result.shape.elements(), "{} elements do not fit {}",
                       result.shape.elements(), extents_text(extents));
  if (result.codes) move_codes(result, shape);
  result.shape = shape;
  to.add_constant(node.output(0), std::move(result));
}

void StructureFolds::reshape() {
  const bool literal = node.integer("allowzero", 0) != 0;
  const std::vector<int64_t> given = to.integers(node, 1);
  const Shape& from = input(0).shape;
  std::vector<int64_t> extents = given;
  int64_t known = 1;
  for (size_t k = 0; k < extents.size(); ++k) {
    if (!literal && extents[k] == 0) {
      require<FormatError>(static_cast<int>(k) < from.rank(),
                           "extent {} is 0, but the input has no such axis", k);
      extents[k] = from[static_cast<int>(k)];
    }
    known = onnx_product(known, extents[k] == -1 ? 1 : extents[k]);
  }
  const auto open = std::ranges::find(extents, -1);
  if (open != extents.end()) {
    require<FormatError>(known > 0 && from.elements() % known == 0 &&
                             std::find(open + 1, extents.end(), -1) == extents.end(),
                         "{} elements do not fit {}", from.elements(), extents_text(given));
    *open = from.elements() / known;
  }
  give_reshaped(extents);
}

void StructureFolds::flatten() {
  const int rank = input(0).shape.rank();
  const int64_t given = node.integer("axis", 1);
  const int axis = given == rank ? rank : onnx_axis(given, rank);
  std::vector<int64_t> extents = {1, 1};
  for (int k = 0; k < rank; ++k) extents[k < axis ? 0 : 1] *= input(0).shape[k];
  give_reshaped(extents);
}

void StructureFolds::squeeze() {
  const auto axes = to.integers_or(node, "axes", 1);
  const Shape& from = input(0).shape;
  std::vector<bool> gone(static_cast<size_t>(from.rank()), false);
  for (int k = 0; k < from.rank(); ++k) gone[static_cast<size_t>(k)] = !axes && from[k] == 1;
  for (const int64_t each : axes.value_or(std::vector<int64_t>{})) {
    const int axis = onnx_axis(each, from.rank());
    require<FormatError>(from[axis] == 1, "axis {} has extent {}", axis, from[axis]);
    gone[static_cast<size_t>(axis)] = true;
  }
  std::vector<int64_t> extents;
  for (int k = 0; k < from.rank(); ++k) {
    if (!gone[static_cast<size_t>(k)]) extents.push_back(from[k]);
  }
  give_reshaped(extents);
}

void StructureFolds::unsqueeze() {
  auto axes = to.integers_or(node, "axes", 1);
  require<FormatError>(axes.has_value(), "axes are missing");
  std::vector<int64_t> extents = extents_of(input(0).shape);
  const int rank = static_cast<int>(extents.size() + axes->size());
  for (int64_t& each : *axes) each = onnx_axis(each, rank);
  std::ranges::sort(*axes);
  for (const int64_t axis : *axes) {
    require<FormatError>(axis <= std::ssize(extents), "axis {} is given twice", axis);
    extents.insert(extents.begin() + axis, 1);
  }
  give_reshaped(extents);
}

void StructureFolds::transpose() {
  const Shape& from = input(0).shape;
  std::vector<int64_t> order(static_cast<size_t>(from.rank()));
  std::iota(order.rbegin(), order.rend(), 0);
  const std::vector<int64_t> given = node.integers("perm").value_or(order);
  require<FormatError>(std::ranges::is_permutation(given, order),
                       "perm {} is not a permutation of the axes of {}", extents_text(given),
                       extents_text(extents_of(from)));
  std::vector<int64_t> strides(order.size(), 1), extents;
  for (size_t k = order.size(); k-- > 1;) {
    strides[k - 1] = strides[k] * from[static_cast<int>(k)];
  }
  for (const int64_t axis : given) extents.push_back(from[static_cast<int>(axis)]);
  const Shape shape = room_for(extents);
  std::vector<size_t> places(static_cast<size_t>(shape.elements()), 0);
  int64_t inner = 1;
  for (size_t k = given.size(); k-- > 0;) {
    const auto stride = static_cast<size_t>(strides[static_cast<size_t>(given[k])]);
    for (size_t i = 0; i < places.size(); ++i) {
      places[i] += stride * static_cast<size_t>(static_cast<int64_t>(i) / inner % extents[k]);
    }
    inner *= extents[k];
  }
  OnnxConstant result = elements_at(input(0), extents, places);
  const std::optional<OnnxCodes>& codes = input(0).codes;
  if (codes && !result.codes && codes->block == 0) {
    result.codes = codes;
    result.unrounded = input(0).unrounded;
    result.codes->axis =
        static_cast<int>(std::ranges::find(given, codes->axis) - given.begin());
  }
  finish(std::move(result));
}

void StructureFolds::concat() {
  const std::vector<const OnnxConstant*> parts = all_inputs();
  const OnnxConstant& first = *parts.at(0);
  const int axis = onnx_axis(node.integer("axis", 0), std::max(first.shape.rank(), 1));
  std::vector<int64_t> extents = extents_of(first.shape);
  require<FormatError>(!extents.empty(), "inputs have different ranks");
  extents[static_cast<size_t>(axis)] = 0;
  for (const OnnxConstant* part : parts) {
    require<FormatError>(part->is_float == first.is_float &&
                             part->shape.rank() == first.shape.rank() &&
                             part->shape.with(axis, 1) == first.shape.with(axis, 1),
                         "constants of {} and {} cannot be joined", to_string(first.shape),
                         to_string(part->shape));
    extents[static_cast<size_t>(axis)] += part->shape[axis];
  }
  OnnxConstant result{.shape = room_for(extents), .is_float = first.is_float};
  const int64_t outer = Sides(first.shape, axis).outer;
  const auto append = [&](const auto& numbers, auto& all, int64_t at) {
    const auto count = std::ssize(numbers) / outer;  // not reached if outer is 0
    all.insert(all.end(), numbers.begin() + count * at, numbers.begin() + count * (at + 1));
  };
  for (int64_t at = 0; at < outer; ++at) {
    for (const OnnxConstant* part : parts) {
      append(part->floats, result.floats, at);
      append(part->integers, result.integers, at);
    }
  }
  finish(std::move(result));
}

void StructureFolds::split() {
  const OnnxConstant from = input(0);  // an output may have its name
  (void)node.has("num_outputs");
  const int axis = onnx_axis(node.integer("axis", 0), from.shape.rank());
  const int64_t extent = from.shape[axis];
  const int64_t each = (extent + node.outputs() - 1) / node.outputs();
  const auto given = to.integers_or(node, "split", 1);
  int64_t begin = 0;
  for (int k = 0; k < node.outputs(); ++k) {
    const int64_t size = given && k < std::ssize(*given) ? (*given)[static_cast<size_t>(k)]
                         : given                         ? -1
                                                         : std::min(each, extent - begin);
    require<FormatError>(size >= 0 && size <= extent - begin,
                         "an extent of {} is not split among {} outputs", extent,
                         node.outputs());
    std::vector<int64_t> at(static_cast<size_t>(size));
    std::iota(at.begin(), at.end(), begin);
    begin += size;
    if (node.output(k).empty()) continue;
    give_places(from, extents_of(from.shape.with(axis, size)),
                places_along(from.shape, axis, at), k);
  }
}

namespace {

/// Returns the positions that a slice of an axis selects.
std::vector<int64_t> sliced(int64_t extent, int64_t start, int64_t end, int64_t step) {
  require<FormatError>(step != 0, "a step of 0 is not supported");
  require<FormatError>(extent <= int64_t{1} << 31, "an extent of {} is too large", extent);
  const int64_t low = step > 0 ? 0 : -1;
  const int64_t high = step > 0 ? extent : extent - 1;
  const auto within = [&](int64_t at) {
    return std::clamp(at < 0 ? std::max(at, -extent - 1) + extent : at, low, high);
  };
  // A larger step selects a single element.
  const int64_t stride = std::clamp(step, -extent - 1, extent + 1);
  std::vector<int64_t> at;
  for (int64_t k = within(start); stride > 0 ? k < within(end) : k > within(end); k += stride) {
    at.push_back(k);
  }
  return at;
}

}  // namespace

void StructureFolds::slice() {
  const auto starts = to.integers_or(node, "starts", 1);
  const auto ends = to.integers_or(node, "ends", 2);
  const auto axes = to.integers_or(node, "axes", 3);
  const auto steps = to.integers_or(node, "steps", 4);
  const size_t count = starts ? starts->size() : 0;
  require<FormatError>(starts && ends && ends->size() == count &&
                           (!axes || axes->size() == count) &&
                           (!steps || steps->size() == count),
                       "starts, ends, axes and steps must have the same length");
  Shape shape = input(0).shape;
  require<FormatError>(std::ssize(*starts) <= shape.rank(), "it slices {} axes of {}", count,
                       shape.rank());
  std::vector<size_t> places(static_cast<size_t>(shape.elements()));
  std::iota(places.begin(), places.end(), size_t{0});
  for (size_t k = 0; k < count; ++k) {
    const int axis = onnx_axis(axes ? (*axes)[k] : static_cast<int64_t>(k), shape.rank());
    for (const auto* each : {&*starts, &*ends}) {
      require<FormatError>(!is_batch((*each)[k]), "slices at {} are not supported",
                           onnx_number((*each)[k]));
    }
    const auto at = sliced(shape[axis], (*starts)[k], (*ends)[k], steps ? (*steps)[k] : 1);
    std::vector<size_t> kept;
    for (const size_t place : places_along(shape, axis, at)) kept.push_back(places[place]);
    places = std::move(kept);
    shape = shape.with(axis, std::ssize(at));
  }
  give_places(input(0), extents_of(shape), places);
}

void StructureFolds::gather() {
  const OnnxConstant& from = input(0);
  const OnnxConstant& indices = input(1);
  require<FormatError>(!indices.is_float, "indices must be integers");
  require<FormatError>(from.shape.rank() >= 1, "a scalar has no elements to select");
  const int axis = onnx_axis(node.integer("axis", 0), from.shape.rank());
  const int64_t extent = from.shape[axis];
  std::vector<int64_t> at;
  for (const int64_t each : indices.integers) {
    at.push_back(resolved(each, extent));
  }
  std::vector<int64_t> extents = extents_of(from.shape);
  extents.erase(extents.begin() + axis);
  const auto within = indices.shape.extents();
  extents.insert(extents.begin() + axis, within.begin(), within.end());
  (void)room_for(extents);
  OnnxConstant result = elements_at(from, extents, places_along(from.shape, axis, at));
  const int batch = from.batch_axis;
  require<FormatError>(batch != axis && (batch < 0 || indices.batch_axis < 0),
                       "it would select samples");
  if (indices.batch_axis >= 0) {
    result.batch_axis = axis + indices.batch_axis;
  } else {
    result.batch_axis = batch > axis ? batch + indices.shape.rank() - 1 : batch;
  }
  give_constant(std::move(result));
}

void StructureFolds::gather_nd() {
  const OnnxConstant& from = input(0);
  const OnnxConstant& indices = input(1);
  require<FormatError>(!indices.is_float, "indices must be integers");
  require<FormatError>(node.integer("batch_dims", 0) == 0, "batch_dims must be 0");
  require<FormatError>(from.batch_axis < 0 && indices.batch_axis < 0,
                       "it would select samples");
  const int rank = indices.shape.rank();
  const int64_t axes = rank > 0 ? indices.shape[-1] : 0;
  require<FormatError>(axes >= 1 && axes <= from.shape.rank(),
                       "indices of {} select axes of {}", to_string(indices.shape),
                       to_string(from.shape));
  const auto leading = static_cast<int>(axes);
  std::vector<int64_t> extents = extents_of(indices.shape);
  extents.pop_back();
  int64_t block = 1;  // elements for each index
  for (int k = leading; k < from.shape.rank(); ++k) {
    extents.push_back(from.shape[k]);
    block *= from.shape[k];
  }
  const Shape shape = room_for(extents);
  std::vector<size_t> places;
  places.reserve(static_cast<size_t>(shape.elements()));
  for (size_t i = 0; i < indices.integers.size(); i += static_cast<size_t>(leading)) {
    int64_t first = 0;
    for (int k = 0; k < leading; ++k) {
      const int64_t each = indices.integers[i + static_cast<size_t>(k)];
      first = first * from.shape[k] + resolved(each, from.shape[k]);
    }
    for (int64_t k = 0; k < block; ++k)
      places.push_back(static_cast<size_t>(first * block + k));
  }
  give_places(from, extents, places);
}

namespace {

constexpr OnnxOperator structure_rows[] = {{"Size", convert<&StructureFolds::size>},
                                           {"Identity", convert<&StructureFolds::identity>},
                                           {"Reshape", convert<&StructureFolds::reshape>},
                                           {"Flatten", convert<&StructureFolds::flatten>},
                                           {"Squeeze", convert<&StructureFolds::squeeze>},
                                           {"Unsqueeze", convert<&StructureFolds::unsqueeze>},
                                           {"Transpose", convert<&StructureFolds::transpose>},
                                           {"Concat", convert<&StructureFolds::concat>},
                                           {"Split", convert<&StructureFolds::split>},
                                           {"Slice", convert<&StructureFolds::slice>},
                                           {"Gather", convert<&StructureFolds::gather>},
                                           {"GatherND", convert<&StructureFolds::gather_nd>}};

}  // namespace

std::span<const OnnxOperator> structure_folds() { return structure_rows; }

}  // namespace qtape
