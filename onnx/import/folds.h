// Constants that nodes compute from other constants, and from shapes.
#pragma once

#include <cstdint>
#include <vector>

#include "qtape/onnx/import/operators.h"

namespace qtape {

/// Number of elements before and after an axis.
struct Sides {
  int64_t outer = 1, inner = 1;

  Sides(const Shape& shape, int axis) {
    for (int k = 0; k < axis; ++k) outer *= shape[k];
    for (int k = axis + 1; k < shape.rank(); ++k) inner *= shape[k];
  }
};

/// Conversion of a node that reads only constants.
struct FoldOperators : OnnxOperators {
  /// Returns an input; also one whose numbers depend on the batch.
  const OnnxConstant& input(int k) const;
  bool has(int k) const { return to.has_input(node, k); }
  /// Returns all inputs.
  std::vector<const OnnxConstant*> all_inputs() const;
  /// Returns the elements of `from` at `places`.
  static OnnxConstant elements_at(const OnnxConstant& from, const std::vector<int64_t>& shape,
                                  const std::vector<size_t>& places);
  /// Gives the codes of input 0, `constant`, their axis in another shape of its elements.
  void move_codes(OnnxConstant& constant, const Shape& shape);
  /// Sets output `k` to these elements.
  void give_places(const OnnxConstant& from, const std::vector<int64_t>& shape,
                   const std::vector<size_t>& places, int k = 0);
  /// Sets the output to elements that `compute(i)` returns.
  template <class Compute>
  void give_floats(const Shape& shape, const Compute& compute);
  template <class Compute>
  void give_numbers(const Shape& shape, const Compute& compute);
  /// Returns the shape of `extents`. Throws FormatError, before any memory is allocated, if it
  /// has more elements than nodes may create.
  Shape room_for(const std::vector<int64_t>& extents) const;
  /// Keeps the batch axis of inputs in the output.
  void finish(OnnxConstant result, int k = 0);
  /// Sets output `k` to `result`, whose batch axis is set.
  void give_constant(OnnxConstant result, int k = 0);
};

/// Returns the shape to which all shapes broadcast. Throws FormatError if there is none.
std::vector<int64_t> broadcast_shape(const std::vector<const OnnxConstant*>& inputs);
/// Returns, for each element of `to`, the place of the element of `from` that broadcasts to it.
std::vector<size_t> broadcast_places(const Shape& from, const Shape& to);
std::vector<int64_t> extents_of(const Shape& shape);

}  // namespace qtape
