// Integer ops in ONNX: one overload of `write` for each op, in ops/.
#pragma once

#include "qtape/integer/ops/integer_ops.h"
#include "qtape/onnx/export/onnx_program.h"

namespace qtape {

// Each adds the nodes of the op and returns the name of its value.
Written write(const integer::Input& op, OnnxProgram& p);
Written write(const integer::Quantize& op, OnnxProgram& p);
Written write(const integer::Requantize& op, OnnxProgram& p);
Written write(const integer::Dequantize& op, OnnxProgram& p);
Written write(const integer::Lookup& op, OnnxProgram& p);
Written write(const integer::Add& op, OnnxProgram& p);
Written write(const integer::Sub& op, OnnxProgram& p);
Written write(const integer::Mul& op, OnnxProgram& p);
Written write(const integer::Linear& op, OnnxProgram& p);
Written write(const integer::Conv& op, OnnxProgram& p);
Written write(const integer::Structure<MaxPool>& op, OnnxProgram& p);
Written write(const integer::AvgPool& op, OnnxProgram& p);
Written write(const integer::Structure<Upsample>& op, OnnxProgram& p);
Written write(const integer::Pad& op, OnnxProgram& p);
Written write(const integer::Concat& op, OnnxProgram& p);
Written write(const integer::Slice& op, OnnxProgram& p);
Written write(const integer::Reshape& op, OnnxProgram& p);
Written write(const integer::Max& op, OnnxProgram& p);
Written write(const integer::Sum& op, OnnxProgram& p);

/// An integer op that ONNX is written of.
template <class X>
concept WritesOnnx = requires(const X& op, OnnxProgram& p) {
  { write(op, p) } -> std::same_as<Written>;
};

}  // namespace qtape
