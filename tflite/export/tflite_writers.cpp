#include "qtape/tflite/export/tflite_writers.h"

#include "qtape/tflite/export/ops/pointwise.h"
#include "qtape/tflite/export/ops/products.h"
#include "qtape/tflite/export/ops/structure.h"
#include "qtape/tflite/export/ops/windows.h"

namespace qtape::tflite {

void write_tflite(const IntegerOp& op, TfliteProgram& p) {
  std::visit(
      [&](const auto& each) {
        if constexpr (WritesTflite<std::decay_t<decltype(each)>>) {
          write(each, p);
        } else {
          fail<GraphError>(
              "{} is not written as an operator of TensorFlow Lite Micro: `qtape export c` "
              "writes all ops",
              each.name);
        }
      },
      op);
}

}  // namespace qtape::tflite
