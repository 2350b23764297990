// Operators on single elements, and the softmax.
#include <array>

#include "qtape/tflite/bounds.h"
#include "qtape/tflite/import/program_reader.h"
#include "qtape/tflite/import/tables.h"

namespace qtape::tflite {
namespace {

void finish_table(ProgramReader& reader, const CodeTable& table) {
  integer::Lookup lookup{reader.grid_of(reader.output()), {}};
  lookup.table = Tensor::of<int8_t>({256}, table);
  reader.finish(std::move(lookup), {reader.codes(0)});
}

void read_add(ProgramReader& reader) {
  reader.check_operands(2, 2);
  const auto options = reader.options<AddOptions>();
  const ProgramNodeId a = reader.codes(0);
  const ProgramNodeId b = reader.codes(1);
  const CodeGrid grid = reader.output_grid(options.activation);
  reader.check_pair(a, b);
  check_sum(reader.type_of(a), reader.type_of(b), grid.scale);
  reader.finish(integer::Add{grid}, {a, b});
}

void read_mul(ProgramReader& reader) {
  reader.check_operands(2, 2);
  const auto options = reader.options<MulOptions>();
  const ProgramNodeId a = reader.codes(0);
  const ProgramNodeId b = reader.codes(1);
  const CodeGrid grid = reader.output_grid(options.activation);
  reader.check_pair(a, b);
  check_product(reader.type_of(a), reader.type_of(b), grid.scale);
  reader.finish(integer::Mul{grid}, {a, b});
}

void read_softmax(ProgramReader& reader) {
  reader.check_operands(1, 1);
  const CodeGrid grid = reader.grid_of(reader.output());
  check(grid.scale == 1.0 / 256 && grid.zero_point == -128,
        "the output has the scale {} and zero point {}, expected 1/256 and -128", grid.scale,
        grid.zero_point);
  integer::Softmax softmax;
  softmax.beta = double{reader.options<SoftmaxOptions>().beta};
  const ProgramNodeId x = reader.codes(0);
  check_softmax(reader.type_of(x));
  reader.finish(std::move(softmax), {x});
}

/// Of floats, or of codes to another grid.
void read_quantize(ProgramReader& reader) {
  reader.check_operands(1, 1);
  const ProgramNodeId x = reader.value(0);
  const CodeGrid grid = reader.grid_of(reader.output());
  if (reader.type_of(x).is_codes()) return reader.finish_requantized(x, grid);
  reader.finish(integer::Quantize{.grid = grid, .rounding = Rounding::HalfAway}, {x});
}

void read_dequantize(ProgramReader& reader) {
  reader.check_operands(1, 1);
  check(reader.output().type == TfliteType::Float32, "the output is {}, expected FLOAT32",
        name_of(reader.output().type));
  reader.finish(integer::Dequantize{}, {reader.codes(0)});
}

/// A limit alone, or a table.
void read_relu(ProgramReader& reader) {
  reader.check_operands(1, 1);
  const CodeGrid x = reader.grid_of(reader.input(0));
  const CodeGrid y = reader.output_grid(Activation::Relu);
  if (x == reader.grid_of(reader.output())) {
    return reader.finish(integer::Requantize{y}, {reader.codes(0)});
  }
  finish_table(reader, relu_table(x, y));
}

/// The limits are those of the input, whose codes are kept.
void read_relu6(ProgramReader& reader) {
  reader.check_operands(1, 1);
  reader.check_same_grid(0);
  reader.finish(integer::Requantize{reader.output_grid(Activation::Relu6)}, {reader.codes(0)});
}

void read_leaky_relu(ProgramReader& reader) {
  reader.check_operands(1, 1);
  finish_table(
      reader, leaky_relu_table(reader.grid_of(reader.input(0)), reader.grid_of(reader.output()),
                               reader.options<LeakyReluOptions>().alpha));
}

/// A function without options.
template <CodeTable (*Table)(const CodeGrid&, const CodeGrid&)>
void read_function(ProgramReader& reader) {
  reader.check_operands(1, 1);
  finish_table(reader, Table(reader.grid_of(reader.input(0)), reader.grid_of(reader.output())));
}

}  // namespace

std::span<const OperatorReader> pointwise_readers() {
  static constexpr std::array readers = {
      OperatorReader{Builtin::Add, 5, read_add},
      OperatorReader{Builtin::Mul, 7, read_mul},
      OperatorReader{Builtin::Softmax, 3, read_softmax},
      OperatorReader{Builtin::Quantize, 4, read_quantize},
      OperatorReader{Builtin::Dequantize, 6, read_dequantize},
      OperatorReader{Builtin::Relu, 3, read_relu},
      OperatorReader{Builtin::Relu6, 3, read_relu6},
      OperatorReader{Builtin::LeakyRelu, 2, read_leaky_relu},
      OperatorReader{Builtin::HardSwish, 1, read_function<hard_swish_table>},
      OperatorReader{Builtin::Logistic, 3, read_function<logistic_table>},
      OperatorReader{Builtin::Tanh, 3, read_function<tanh_table>}};
  return readers;
}

}  // namespace qtape::tflite
