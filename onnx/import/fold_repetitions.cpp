// Constants that repeat other constants, and triangles of them.
#include <algorithm>

#include "qtape/onnx/import/folds.h"

namespace qtape {
namespace {

struct RepetitionFolds : FoldOperators {
  void expand();
  void tile();
  void triangle();
};

}  // namespace

void RepetitionFolds::expand() {
  const OnnxConstant& from = input(0);
  std::vector<int64_t> extents = to.integers(node, 1);
  const auto batch = std::ranges::find_if(extents, is_batch);
  int axis = -1;
  if (batch != extents.end()) {
    axis = static_cast<int>(batch - extents.begin());
    *batch = 1;
  }
  const auto size = static_cast<size_t>(from.shape.rank());
  if (size > extents.size()) {
    if (axis >= 0) axis += static_cast<int>(size - extents.size());
    extents.insert(extents.begin(), size - extents.size(), 1);
  }
  for (size_t k = 0; k < size; ++k) {
    int64_t& extent = extents[extents.size() - size + k];
    const int64_t own = from.shape[static_cast<int>(k)];
    require<FormatError>(extent == own || extent == 1 || own == 1,
                         "{} cannot be expanded to {}", to_string(from.shape),
                         extents_text(to.integers(node, 1)));
    if (extent == 1) extent = own;
  }
  require<FormatError>(axis < 0 || extents[static_cast<size_t>(axis)] == 1,
                       "{} cannot be expanded to {}", to_string(from.shape),
                       extents_text(to.integers(node, 1)));
  const Shape shape = room_for(extents);
  OnnxConstant result{.shape = shape, .is_float = from.is_float, .batch_axis = axis};
  for (const size_t place : broadcast_places(from.shape, shape)) {
    if (from.is_float) result.floats.push_back(from.floats[place]);
    if (!from.is_float) result.integers.push_back(from.integers[place]);
  }
  finish(std::move(result));
}

void RepetitionFolds::tile() {
  const OnnxConstant& from = input(0);
  std::vector<int64_t> repeats = to.integers(node, 1);
  require<FormatError>(std::ssize(repeats) == from.shape.rank(),
                       "repeats must have one number for each axis");
  std::vector<int64_t> extents = extents_of(from.shape);
  int batch_axis = -1;
  const auto batch = std::ranges::find_if(repeats, is_batch);
  if (batch != repeats.end()) {
    batch_axis = static_cast<int>(batch - repeats.begin());
    require<FormatError>(from.shape[batch_axis] == 1,
                         "axis {} of {}, repeated for each sample, must have the extent 1",
                         batch_axis, to_string(from.shape));
    *batch = 1;
  }
  for (size_t k = 0; k < extents.size(); ++k) {
    extents[k] = onnx_product(extents[k], repeats[k]);
  }
  const Shape shape = room_for(extents);
  std::vector<size_t> places(static_cast<size_t>(shape.elements()), 0);
  int64_t inner = 1, stride = 1;
  for (int k = shape.rank() - 1; k >= 0; --k) {
    for (size_t i = 0; i < places.size(); ++i) {
      const int64_t at = static_cast<int64_t>(i) / inner % shape[k] % from.shape[k];
      places[i] += static_cast<size_t>(at * stride);
    }
    inner *= shape[k];
    stride *= from.shape[k];
  }
  OnnxConstant result = elements_at(from, extents, places);
  result.batch_axis = batch_axis;
  finish(std::move(result));
}

/// Keeps the elements on one side of a diagonal of the last two axes; others become 0.
void RepetitionFolds::triangle() {
  OnnxConstant result = input(0);
  const Shape& shape = result.shape;
  require<FormatError>(shape.rank() >= 2, "expected a matrix, got {}", to_string(shape));
  const bool upper = node.integer("upper", 1) != 0;
  const std::vector<int64_t> given =
      to.has_input(node, 1) ? to.integers(node, 1) : std::vector<int64_t>{0};
  require<FormatError>(given.size() == 1, "k must be one number, got {}", given.size());
  const int64_t rows = shape[-2], columns = shape[-1];
  const int64_t k = std::clamp(given[0], -rows, columns);
  const auto cut = [&](auto& numbers) {
    for (size_t i = 0; i < numbers.size(); ++i) {
      const auto place = static_cast<int64_t>(i);
      const int64_t diagonal = place % columns - place / columns % rows;
      if (upper ? diagonal < k : diagonal > k) numbers[i] = 0;
    }
  };
  cut(result.floats);
  cut(result.integers);
  result.codes.reset();
  finish(std::move(result));
}

namespace {

constexpr OnnxOperator repetition_rows[] = {{"Expand", convert<&RepetitionFolds::expand>},
                                            {"Tile", convert<&RepetitionFolds::tile>},
                                            {"Trilu", convert<&RepetitionFolds::triangle>}};

}  // namespace

std::span<const OnnxOperator> repetition_folds() { return repetition_rows; }

}  // namespace qtape
