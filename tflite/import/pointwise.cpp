// Operators on single elements, and the softmax.
#include <array>

#include "qtape/core/printable.h"
#include "qtape/tflite/import/layers.h"

namespace qtape::tflite {
namespace {

/// ADD, SUB and MUL.
template <class L, class O>
Layer read_pair(OperatorView& view) {
  view.check_operands(2, 2);
  const L layer{view.options<O>().activation};
  view.check_pair();
  return layer;
}

/// Throws unless input and output have 8-bit codes, or floats.
void check_narrow(const OperatorView& view) {
  for (const TfliteTensor* each : {&view.input(0), &view.output()}) {
    check(each->type != TfliteType::Int16, "tensor '{}' is INT16, expected INT8",
          printable(each->name));
  }
}

Layer read_softmax(OperatorView& view) {
  view.check_operands(1, 1);
  if (view.output().type != TfliteType::Float32) {
    const CodeGrid grid = view.grid_of(view.output());
    const bool wide = grid.dtype == DType::S16;
    check(wide ? grid.scale == 1.0 / 32768 : grid.scale == 1.0 / 256 && grid.zero_point == -128,
          "the output has the scale {} and zero point {}, expected {}", grid.scale,
          grid.zero_point, wide ? "1/32768 and 0" : "1/256 and -128");
  }
  return SoftmaxLayer{double{view.options<SoftmaxOptions>().beta}};
}

/// Of floats, or of codes to another grid.
Layer read_quantize(OperatorView& view) {
  view.check_operands(1, 1);
  (void)view.grid_of(view.output());
  return QuantizeLayer{};
}

Layer read_dequantize(OperatorView& view) {
  view.check_operands(1, 1);
  check(view.output().type == TfliteType::Float32, "the output is {}, expected FLOAT32",
        name_of(view.output().type));
  return DequantizeLayer{};
}

/// A limit alone, or a function of codes to another grid.
Layer read_relu(OperatorView& view) {
  view.check_operands(1, 1);
  const bool floats = view.output().type == TfliteType::Float32;
  if (floats || view.grid_of(view.input(0)) == view.grid_of(view.output())) {
    return LimitLayer{Activation::Relu};
  }
  check_narrow(view);
  return FunctionLayer{Builtin::Relu};
}

/// The limits are those of the input, whose codes are kept.
Layer read_relu6(OperatorView& view) {
  view.check_operands(1, 1);
  view.check_same_grid(0);
  return LimitLayer{Activation::Relu6};
}

Layer read_leaky_relu(OperatorView& view) {
  view.check_operands(1, 1);
  check_narrow(view);
  return FunctionLayer{Builtin::LeakyRelu, view.options<LeakyReluOptions>().alpha};
}

/// A function without options.
Layer read_function(OperatorView& view) {
  view.check_operands(1, 1);
  check_narrow(view);
  return FunctionLayer{view.op().op};
}

}  // namespace

std::span<const OperatorReader> pointwise_readers() {
  static constexpr std::array readers = {
      OperatorReader{Builtin::Add, 5, read_pair<AddLayer, AddOptions>},
      OperatorReader{Builtin::Sub, 5, read_pair<SubLayer, SubOptions>, false},
      OperatorReader{Builtin::Mul, 7, read_pair<MulLayer, MulOptions>},
      OperatorReader{Builtin::Softmax, 3, read_softmax},
      OperatorReader{Builtin::Quantize, 4, read_quantize},
      OperatorReader{Builtin::Dequantize, 6, read_dequantize},
      OperatorReader{Builtin::Relu, 3, read_relu},
      OperatorReader{Builtin::Relu6, 3, read_relu6},
      OperatorReader{Builtin::LeakyRelu, 2, read_leaky_relu},
      OperatorReader{Builtin::HardSwish, 1, read_function},
      OperatorReader{Builtin::Logistic, 3, read_function},
      OperatorReader{Builtin::Tanh, 3, read_function}};
  return readers;
}

}  // namespace qtape::tflite
