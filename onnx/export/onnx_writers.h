// Integer ops in ONNX: each by its overload of `write`, in the file of its family in ops/.
#pragma once

#include <concepts>

#include "qtape/integer/ops/integer_ops.h"
#include "qtape/onnx/export/onnx_program.h"

namespace qtape {

/// An integer op that can be written as ONNX: `write` adds its nodes and returns the name of
/// its value.
template <class X>
concept WritesOnnx = requires(const X& op, OnnxProgram& p) {
  { write(op, p) } -> std::same_as<Written>;
};

/// Adds the nodes of any op and returns the name of its value.
Written write_onnx(const IntegerOp& op, OnnxProgram& p);

}  // namespace qtape
