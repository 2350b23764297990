#include "qtape/onnx/import/folds.h"

#include <algorithm>
#include <cmath>

namespace qtape {

std::vector<int64_t> extents_of(const Shape& shape) {
  return {shape.extents().begin(), shape.extents().end()};
}

std::vector<int64_t> broadcast_shape(const std::vector<const OnnxConstant*>& inputs) {
  std::vector<int64_t> result;
  for (const OnnxConstant* input : inputs) {
    const auto extents = input->shape.extents();
    if (extents.size() > result.size()) {
      result.insert(result.begin(), extents.size() - result.size(), 1);
    }
    for (size_t k = 1; k <= extents.size(); ++k) {
      const int64_t extent = extents[extents.size() - k];
      int64_t& wide = result[result.size() - k];
      require<FormatError>(extent == wide || extent == 1 || wide == 1,
                           "constants of {} and {} cannot be combined",
                           to_string(inputs[0]->shape), to_string(input->shape));
      if (wide == 1) wide = extent;
    }
  }
  return result;
}

std::vector<size_t> broadcast_places(const Shape& from, const Shape& to) {
  const int missing = to.rank() - from.rank();
  std::vector<size_t> places(static_cast<size_t>(to.elements()), 0);
  size_t stride = 1;
  int64_t inner = 1;  // elements of `to` for each step along an axis
  for (int k = to.rank() - 1; k >= 0; --k) {
    const int64_t extent = k >= missing ? from[k - missing] : 1;
    if (extent > 1) {
      for (size_t i = 0; i < places.size(); ++i) {
        places[i] += stride * static_cast<size_t>(static_cast<int64_t>(i) / inner % to[k]);
      }
    }
    stride *= static_cast<size_t>(extent);
    inner *= to[k];
  }
  return places;
}

const OnnxConstant& FoldOperators::input(int k) const {
  const OnnxConstant* found = to.find_constant(node.input(k));
  require<FormatError>(found != nullptr, "input {} is missing", k);
  return *found;
}

std::vector<const OnnxConstant*> FoldOperators::all_inputs() const {
  std::vector<const OnnxConstant*> all;
  for (int k = 0; k < node.inputs(); ++k) all.push_back(&input(k));
  return all;
}

Shape FoldOperators::room_for(const std::vector<int64_t>& extents) const {
  for (const int64_t each : extents) {
    require<FormatError>(each >= 0, "constants of {} are not supported", extents_text(extents));
  }
  const Shape shape(extents);
  to.expect_room(shape.elements());
  return shape;
}

OnnxConstant FoldOperators::elements_at(const OnnxConstant& from,
                                        const std::vector<int64_t>& shape,
                                        const std::vector<size_t>& places) {
  OnnxConstant result{.shape = Shape(shape), .is_float = from.is_float, .type = from.type};
  const auto take = [&](const auto& numbers, auto& taken) {
    if (numbers.empty()) return;
    taken.reserve(places.size());
    for (const size_t place : places) taken.push_back(numbers[place]);
  };
  take(from.floats, result.floats);
  take(from.integers, result.integers);
  if (from.codes && from.codes->scales.size() == 1 && from.codes->block == 0) {
    result.codes = from.codes;
    result.unrounded = from.unrounded;
  }
  return result;
}

void FoldOperators::move_codes(OnnxConstant& constant, const Shape& shape) {
  to.keep_codes(node.input(0));
  OnnxCodes& codes = *constant.codes;
  if (codes.scales.size() == 1 && codes.block == 0) return;
  const Sides from(constant.shape, codes.axis);
  const int64_t extent = constant.shape[codes.axis];
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (shape[axis] != extent || Sides(shape, axis).outer != from.outer) continue;
    require<FormatError>(codes.block == 0 || shape == constant.shape,
                         "constants with scales of blocks cannot be reshaped");
    codes.axis = axis;
    return;
  }
  fail<FormatError>("a constant with scales along axis {} of {} cannot become {}", codes.axis,
                    to_string(constant.shape), to_string(shape));
}

void FoldOperators::give_places(const OnnxConstant& from, const std::vector<int64_t>& shape,
                                const std::vector<size_t>& places, int k) {
  finish(elements_at(from, shape, places), k);
}

void FoldOperators::finish(OnnxConstant result, int k) {
  for (int i = 0; i < node.inputs(); ++i) {
    const OnnxConstant* from = to.find_constant(node.input(i));
    // Along the batch axis all elements are the same, as for an axis of extent 1.
    if (from == nullptr || from->batch_axis < 0) continue;
    const int axis = from->batch_axis + result.shape.rank() - from->shape.rank();
    require<FormatError>(axis >= 0 && result.shape[axis] == 1 &&
                             (result.batch_axis < 0 || result.batch_axis == axis),
                         "a constant with the batch extent along axis {} is not supported",
                         from->batch_axis);
    result.batch_axis = axis;
  }
  give_constant(std::move(result), k);
}

void FoldOperators::give_constant(OnnxConstant result, int k) {
  const auto isnan = [](float each) { return std::isnan(each); };
  for (int i = 0; i < node.inputs(); ++i) {
    const OnnxConstant* from = to.find_constant(node.input(i));
    result.unknown = result.unknown || (from != nullptr && from->unknown);
    if (result.codes && from != nullptr && from->codes) to.keep_codes(node.input(i));
  }
  result.unknown = result.unknown && std::ranges::any_of(result.floats, isnan);
  to.add_constant(node.output(k), std::move(result));
}

}  // namespace qtape
