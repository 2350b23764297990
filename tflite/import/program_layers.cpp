// The integer ops of each layer.
#include "qtape/tflite/bounds.h"
#include "qtape/tflite/import/program_reader.h"
#include "qtape/tflite/import/tables.h"

namespace qtape::tflite {

QuantizedWeights ProgramReader::packed(const ProductWeights& weights, const IntegerValue& x) {
  const Shape& shape = weights.shape;
  int64_t terms = 1;
  for (int axis = 1; axis < shape.rank(); ++axis) terms *= shape[axis];
  return pack_weights(weights.codes, {shape[0], terms}, weights.bits, weights.scales,
                      weights.bias_codes, x);
}

void ProgramReader::finish_product(IntegerOp product, ProgramNodeId x, Activation activation) {
  const CodeGrid grid = output_grid(activation);
  const ProgramNodeId sums = append(std::move(product), {x}, view_.input(1).name);
  finish_requantized(sums, grid);
}

void ProgramReader::add_layer(const ConvLayer& layer) {
  const ProgramNodeId x = codes(0);
  integer::Conv conv{.taps = layer.taps,
                     .stride = layer.stride,
                     .dilation = layer.dilation,
                     .padding = layer.padding,
                     .groups = layer.groups};
  conv.weights = packed(layer.weights, conv.factors(type_of(x)));
  finish_product(std::move(conv), x, layer.activation);
}

void ProgramReader::add_layer(const LinearLayer& layer) {
  ProgramNodeId x = codes(0);
  if (layer.flattened) {
    x = append(integer::Reshape{qtape::Reshape{.shape = {-1, layer.weights.shape[1]}}}, {x});
  }
  integer::Linear linear;
  linear.weights = packed(layer.weights, type_of(x));
  linear.f32_scales = layer.weights.scales.size() == 1;
  finish_product(std::move(linear), x, layer.activation);
}

void ProgramReader::add_layer(const AddLayer& layer) {
  const ProgramNodeId a = codes(0), b = codes(1);
  const CodeGrid grid = output_grid(layer.activation);
  check_sum(type_of(a), type_of(b), grid.scale);
  finish(integer::Add{grid}, {a, b});
}

/// Not called: the table of operators excludes SUB from programs.
void ProgramReader::add_layer(const SubLayer&) {
  fail<GraphError>("the operator is not supported");
}

void ProgramReader::add_layer(const MulLayer& layer) {
  const ProgramNodeId a = codes(0), b = codes(1);
  const CodeGrid grid = output_grid(layer.activation);
  check_product(type_of(a), type_of(b), grid.scale);
  finish(integer::Mul{grid}, {a, b});
}

void ProgramReader::add_layer(const PoolLayer& layer) {
  const ProgramNodeId x = codes(0);
  const auto with_windows = [&](auto pool) {
    pool.kernel = layer.kernel;
    pool.stride = layer.stride;
    pool.padding = layer.padding;
    finish_limited(std::move(pool), x, layer.activation);
  };
  if (layer.largest) return with_windows(integer::Structure<qtape::MaxPool>{});
  with_windows(integer::MeanPool{});
}

void ProgramReader::add_layer(const MeanLayer& layer) {
  const ProgramNodeId x = codes(0);
  const CodeGrid grid = output_grid();
  check_mean(layer.terms, type_of(x), grid.scale);
  const ProgramNodeId sums = append(integer::Sum{layer.axes, layer.keep_dims, true}, {x});
  finish_requantized(sums, grid);
}

void ProgramReader::add_layer(const SoftmaxLayer& layer) {
  const ProgramNodeId x = codes(0);
  check_softmax(type_of(x));
  finish(integer::Softmax{layer.beta}, {x});
}

void ProgramReader::add_layer(const FunctionLayer& layer) {
  const CodeGrid grid = view_.grid_of(view_.output());
  const CodeTable table = function_table(layer, view_.grid_of(view_.input(0)), grid);
  finish(integer::Lookup{grid, Tensor::of<int8_t>({256}, table)}, {codes(0)});
}

void ProgramReader::add_layer(const LimitLayer& layer) {
  finish(integer::Requantize{output_grid(layer.activation)}, {codes(0)});
}

void ProgramReader::add_layer(const ReshapeLayer& layer) {
  finish(integer::Reshape{qtape::Reshape{.shape = layer.shape}}, {codes(0)});
}

void ProgramReader::add_layer(const PadLayer& layer) {
  const int32_t zero = view_.grid_of(view_.output()).zero_point;
  finish(integer::Pad{layer.begin, layer.end, layer.code.value_or(zero)}, {codes(0)});
}

void ProgramReader::add_layer(const ConcatLayer& layer) {
  std::vector<ProgramNodeId> operands;
  for (size_t k = 0; k < view_.op().inputs.size(); ++k) operands.push_back(codes(k));
  integer::Concat concat;
  concat.axis = layer.axis;
  concat.count = static_cast<int>(operands.size());
  finish(std::move(concat), operands);
}

void ProgramReader::add_layer(const QuantizeLayer&) {
  const ProgramNodeId x = value(0);
  const CodeGrid grid = view_.grid_of(view_.output());
  if (type_of(x).is_codes()) return finish_requantized(x, grid);
  finish(integer::Quantize{.grid = grid, .rounding = Rounding::HalfAway}, {x});
}

void ProgramReader::add_layer(const DequantizeLayer&) {
  const ProgramNodeId x = value(0);
  check(type_of(x).is_codes(), "input 0 is {}, expected codes", name_of(view_.input(0).type));
  finish(integer::Dequantize{}, {x});
}

}  // namespace qtape::tflite
