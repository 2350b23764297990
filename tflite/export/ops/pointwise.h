// Ops on single elements, inputs and outputs as operators.
#pragma once

#include "qtape/core/byte_order.h"
#include "qtape/integer/ops/integer_ops.h"
#include "qtape/tflite/bounds.h"
#include "qtape/tflite/export/tflite_program.h"

namespace qtape::tflite {

/// Inputs are written with their quantizers, outputs as the codes that they dequantize.
inline void write(const integer::Input& op, TfliteProgram&) {
  check(op.indices == 0, "TensorFlow Lite Micro has no embedding of codes for indices");
}
inline void write(const integer::Quantize&, TfliteProgram& p) {
  check(std::holds_alternative<integer::Input>(p.operand(0).op),
        "quantizes {}, expected an input", p.program().name(p.node().operands[0]));
  p.finish_input();
}
inline void write(const integer::Dequantize& op, TfliteProgram& p) {
  check(!op.low && !op.high, "limits floats, expected codes");
  p.finish(p.tensor(0));
}

inline void write(const integer::Constant& op, TfliteProgram& p) {
  const int32_t tensor = p.add_result();
  p.model.tensors.back().buffer = static_cast<uint32_t>(p.model.buffers.size());
  p.model.buffers.push_back(LittleEndian(op.codes.data, size_of(op.grid.dtype)).copy());
  p.finish(tensor);
}

inline void write(const integer::Add& op, TfliteProgram& p) {
  check_sum(p.in(0), p.in(1), op.grid.scale);
  p.finish(Builtin::Add, {p.tensor(0), p.tensor(1)},
           AddOptions{.activation = TfliteProgram::activation(op.grid),
                      .shifts_int16 = op.grid.dtype != DType::S16});
}
inline void write(const integer::Mul& op, TfliteProgram& p) {
  check_product(p.in(0), p.in(1), op.grid.scale);
  p.finish(Builtin::Mul, {p.tensor(0), p.tensor(1)},
           MulOptions{.activation = TfliteProgram::activation(op.grid)});
}
inline void write(const integer::Softmax& op, TfliteProgram& p) {
  const auto beta = static_cast<float>(op.beta);
  check(double{beta} == op.beta, "beta is {}, expected an f32; the nearest is {}", op.beta,
        double{beta});
  check_softmax(p.in(0));
  p.finish(Builtin::Softmax, {p.tensor(0)}, SoftmaxOptions{.beta = beta});
}

}  // namespace qtape::tflite
