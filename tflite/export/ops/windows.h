// Poolings as operators.
#pragma once

#include "qtape/integer/ops/integer_ops.h"
#include "qtape/tflite/export/ops/products.h"
#include "qtape/tflite/export/tflite_program.h"

namespace qtape::tflite {
namespace {

/// Adds `op` over images, of one row if windows slide along one axis. `can_pad` is true if the
/// code of 0 in a border changes no result.
template <class P>
void write_pool(const P& op, Builtin builtin, TfliteProgram& p, bool can_pad) {
  const IntegerValue& x = p.in(0);
  const bool one = x.type.shape.rank() == 3;
  const Shape in = image(x.type.shape);
  const Window w = op.pool(x.type.shape).window;
  check(w.h.dilation == 1 && w.w.dilation == 1, "windows have a dilation, expected 1");
  const bool same = is_same(w.h) && is_same(w.w);
  const bool border = !same && !(is_valid(w.h) && is_valid(w.w));
  check(
      !border || can_pad,
      "the padding is neither SAME nor VALID of TensorFlow Lite, and codes of its border would "
      "change results");
  int32_t from = p.tensor(0);
  if (one) from = reshaped(p, from, x, in);
  if (border) from = add_border(p, from, x, in, w);
  Pool2dOptions options;
  options.padding = same ? PaddingType::Same : PaddingType::Valid;
  options.stride_h = step_of(w.h.stride);
  options.stride_w = step_of(w.w.stride);
  options.filter_height = static_cast<int32_t>(w.h.kernel);
  options.filter_width = static_cast<int32_t>(w.w.kernel);
  if (!one) return p.finish(builtin, {from}, options);
  const int32_t row = p.add_tensor(p.part("row"), p.out(), image(p.out().type.shape));
  p.add_operator(builtin, {from}, row, options);
  p.finish(Builtin::Reshape, {row}, ReshapeOptions{reshape_of(p.out().type.shape)});
}

}  // namespace

inline void write(const integer::MeanPool& op, TfliteProgram& p) {
  check(
      type_of_codes(p.out().type.dtype).has_value(),
      "rounds means of unsigned codes, halves away from the code 0, but TensorFlow Lite Micro "
      "those of codes minus 128; expected signed codes");
  write_pool(op, Builtin::AveragePool2d, p, false);
}
inline void write(const integer::Structure<qtape::MaxPool>& op, TfliteProgram& p) {
  const bool lowest = p.in(0).low >= p.in(0).zero_point;
  write_pool(op, Builtin::MaxPool2d, p, lowest);
}

}  // namespace qtape::tflite
