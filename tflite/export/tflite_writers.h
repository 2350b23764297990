// Integer ops as operators of TensorFlow Lite: each by its overload of `write`, in the file of
// its family in ops/.
#pragma once

#include "qtape/integer/ops/integer_ops.h"
#include "qtape/tflite/export/tflite_program.h"

namespace qtape::tflite {

/// An integer op that can be written: `write` adds its operators. Of ops without one, and of
/// nodes that `write` refuses, TensorFlow Lite Micro computes other codes.
template <class X>
concept WritesTflite = requires(const X& op, TfliteProgram& p) {
  write(op, p);
};

/// Adds the operators of the current node. Throws GraphError if there are none that compute
/// its codes.
void write_tflite(const IntegerOp& op, TfliteProgram& p);

}  // namespace qtape::tflite
