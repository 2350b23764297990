// Arrays as ONNX has them, and what its operators that move elements do, by plain loops.
#pragma once

#include <functional>
#include <numeric>

#include "qtape/tests/onnx/onnx_model.h"

namespace qtape::test::onnx_models {

/// An array as ONNX has it, with one sample.
struct OnnxGiven {
  Extents shape;
  Numbers values;
};

inline int64_t count(const Extents& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

inline OnnxGiven numbered(const Extents& shape) {
  OnnxGiven x{shape, Numbers(static_cast<size_t>(count(shape)))};
  std::iota(x.values.begin(), x.values.end(), 1.0f);
  return x;
}

/// Returns an array of `shape` whose element at each index is that of x at `from(index)`; 0
/// where that is empty.
inline OnnxGiven chosen(const OnnxGiven& x, const Extents& shape,
                        const std::function<Extents(const Extents&)>& from) {
  OnnxGiven y{shape, {}};
  Extents at(shape.size(), 0);
  for (int64_t i = 0; i < count(shape); ++i) {
    int64_t rest = i;
    for (size_t k = shape.size(); k-- > 0;) {
      at[k] = rest % shape[k];
      rest /= shape[k];
    }
    const Extents index = from(at);
    int64_t place = 0;
    for (size_t k = 0; k < index.size(); ++k) place = place * x.shape[k] + index[k];
    y.values.push_back(index.empty() ? 0 : x.values[static_cast<size_t>(place)]);
  }
  return y;
}

inline OnnxGiven transposed(const OnnxGiven& x, const Extents& perm) {
  Extents shape;
  for (const int64_t axis : perm) shape.push_back(x.shape[static_cast<size_t>(axis)]);
  return chosen(x, shape, [&](const Extents& at) {
    Extents from(at.size());
    for (size_t k = 0; k < at.size(); ++k) from[static_cast<size_t>(perm[k])] = at[k];
    return from;
  });
}

/// Returns an array in which index i of `axis` is index places[i] of x.
inline OnnxGiven along(const OnnxGiven& x, size_t axis, const Extents& places) {
  Extents shape = x.shape;
  shape[axis] = std::ssize(places);
  return chosen(x, shape, [&](Extents at) {
    at[axis] = places[static_cast<size_t>(at[axis])];
    return at;
  });
}

/// Returns what a model gives for x, whose elements are stored with channels last if it is an
/// image; joined to one axis after the batch.
inline Numbers answer(OnnxModel model, const OnnxGiven& x) {
  const bool image = x.shape.size() == 4;
  const OnnxGiven stored = image ? transposed(x, {0, 2, 3, 1}) : x;
  return answer(model.then("Reshape", {ints({0, -1})}).imported(), stored.values, 1);
}

}  // namespace qtape::test::onnx_models
