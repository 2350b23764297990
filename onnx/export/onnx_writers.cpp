#include "qtape/onnx/export/onnx_writers.h"

// The families are headers for this source alone, so that an op without ONNX does not compile.
#include "qtape/onnx/export/ops/norms.h"
#include "qtape/onnx/export/ops/pointwise.h"
#include "qtape/onnx/export/ops/products.h"
#include "qtape/onnx/export/ops/structure.h"
#include "qtape/onnx/export/ops/windows.h"

namespace qtape {

Written write_onnx(const IntegerOp& op, OnnxProgram& p) {
  return std::visit(
      [&]<class X>(const X& each) {
        static_assert(WritesOnnx<X>,
                      "an integer op has no write(op, OnnxProgram&) in onnx/export/ops");
        return write(each, p);
      },
      op);
}

}  // namespace qtape
