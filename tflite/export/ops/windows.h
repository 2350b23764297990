// Poolings as operators.
#pragma once

#include "qtape/integer/ops/integer_ops.h"
#include "qtape/tflite/export/ops/products.h"
#include "qtape/tflite/export/tflite_program.h"

namespace qtape::tflite {
namespace {

template <class P>
void write_pool(const P& op, Builtin builtin, TfliteProgram& p) {
  const Shape& shape = p.in(0).type.shape;
  check(shape.rank() == 4, "windows slide along one axis, expected two");
  const Window w = op.pool(shape).window;
  check(w.h.dilation == 1 && w.w.dilation == 1, "windows have a dilation, expected 1");
  const bool same = is_same(w.h) && is_same(w.w);
  check(same || (is_valid(w.h) && is_valid(w.w)),
        "the padding is neither SAME nor VALID of TensorFlow Lite");
  Pool2dOptions options;
  options.padding = same ? PaddingType::Same : PaddingType::Valid;
  options.stride_h = static_cast<int32_t>(w.h.stride);
  options.stride_w = static_cast<int32_t>(w.w.stride);
  options.filter_height = static_cast<int32_t>(w.h.kernel);
  options.filter_width = static_cast<int32_t>(w.w.kernel);
  p.finish(builtin, {p.tensor(0)}, options);
}

}  // namespace

inline void write(const integer::MeanPool& op, TfliteProgram& p) {
  check(
      type_of_codes(p.out().type.dtype).has_value(),
      "rounds means of unsigned codes, halves away from the code 0, but TensorFlow Lite Micro "
      "those of codes less 128; expected signed codes");
  write_pool(op, Builtin::AveragePool2d, p);
}
inline void write(const integer::Structure<qtape::MaxPool>& op, TfliteProgram& p) {
  write_pool(op, Builtin::MaxPool2d, p);
}

}  // namespace qtape::tflite
