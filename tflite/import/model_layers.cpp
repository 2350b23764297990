// The ops of each layer.
#include <array>
#include <cmath>

#include "qtape/tflite/activations.h"
#include "qtape/tflite/import/model_reader.h"

namespace qtape::tflite {
namespace {

/// Returns the op of a fused activation, if there is one.
std::optional<Op> op_of(Activation activation) {
  switch (activation) {
    case Activation::None:
      return std::nullopt;
    case Activation::Relu:
      return qtape::Relu{};
    case Activation::Relu6:
      return qtape::Relu6{};
    case Activation::ReluN1To1:
      return qtape::Clamp{.low = -1, .high = 1};
    default:
      fail_activation(activation);
  }
}

}  // namespace

void ModelReader::finish(const Op& op, std::span<const NodeId> operands, const Value& x,
                         Activation activation) {
  const std::string label = output_label();
  const std::optional<Op> limit = op_of(activation);
  Value y = apply(op, operands, x, limit ? std::string() : label);
  if (limit) y = apply(*limit, std::span(&y.id, 1), y, label);
  settle(y, label);
}

void ModelReader::settle(const Value& value, const std::string& label, bool rounded) {
  const int32_t output = view_.op().outputs[0];
  view_.check_computed(graph_[value.id].type.shape);
  const bool floats = view_.output().type == TfliteType::Float32;
  values_.set(output, floats || !rounded ? value : quantized(value, output, label));
}

void ModelReader::finish_product(const Op& product, const Value& x, const ProductWeights& layer,
                                 Activation activation) {
  const NodeId w = weights(layer);
  const std::array factors = {x.id, w};
  if (!view_.has_input(2)) return finish(product, factors, {}, activation);
  const std::array terms = {append(product, {x.id, w}), bias(layer, x, w)};
  finish(AddBias{}, terms, {}, activation);
}

void ModelReader::add_layer(const ConvLayer& layer) {
  const Conv2d conv{.stride = layer.stride,
                    .padding = layer.padding,
                    .dilation = layer.dilation,
                    .groups = layer.groups};
  finish_product(conv, operand(0), layer.weights, layer.activation);
}

void ModelReader::add_layer(const LinearLayer& layer) {
  Value x = operand(0);
  if (layer.flattened) {
    const qtape::Reshape rows{.shape = {-1, layer.weights.shape[1]}};
    x = apply(rows, std::span(&x.id, 1), x, {});
  }
  finish_product(MatMul{.transpose_b = true}, x, layer.weights, layer.activation);
}

template <class X>
void ModelReader::add_pair(Activation activation) {
  const std::array operands = {operand(0).id, operand(1).id};
  finish(X{}, operands, {}, activation);
}

// A constant single number becomes an attribute of an Affine rather than a parameter, as in
// ONNX.

void ModelReader::add_layer(const AddLayer& layer) {
  for (const size_t k : {size_t{0}, size_t{1}}) {
    if (const auto value = number(k)) {
      return finish(Affine{.offset = double{*value}}, operand(1 - k), layer.activation);
    }
  }
  add_pair<qtape::Add>(layer.activation);
}

void ModelReader::add_layer(const SubLayer& layer) {
  if (const auto value = number(0)) {
    const Affine from{.factor = -1, .offset = double{*value}};
    return finish(from, operand(1), layer.activation);
  }
  if (const auto value = number(1)) {
    return finish(Affine{.offset = -double{*value}}, operand(0), layer.activation);
  }
  add_pair<qtape::Sub>(layer.activation);
}

void ModelReader::add_layer(const MulLayer& layer) {
  for (const size_t k : {size_t{0}, size_t{1}}) {
    if (const auto value = number(k)) {
      return finish(Affine{.factor = double{*value}}, operand(1 - k), layer.activation);
    }
  }
  add_pair<qtape::Mul>(layer.activation);
}

void ModelReader::add_layer(const PoolLayer& layer) {
  const Value x = operand(0);
  const Shape& shape = graph_[x.id].type.shape;
  if (layer.largest) {
    const qtape::MaxPool pool{
        .kernel = layer.kernel, .stride = layer.stride, .padding = layer.padding};
    return finish(pool, x, layer.activation);
  }
  const bool whole = layer.kernel == Shape{shape[1], shape[2]};
  if (whole && layer.padding == Padding::Valid) {
    return finish(GlobalAvgPool{.keep_dims = true}, x, layer.activation);
  }
  const qtape::AvgPool pool{.kernel = layer.kernel,
                            .stride = layer.stride,
                            .padding = layer.padding,
                            .count_include_pad = false};
  finish(pool, x, layer.activation);
}

void ModelReader::add_layer(const MeanLayer& layer) {
  finish(qtape::Mean{.axes = layer.axes, .keep_dims = layer.keep_dims}, operand(0));
}

/// Codes get a quantizer where they are read: conversion leaves out a softmax that is an
/// answer.
void ModelReader::add_layer(const SoftmaxLayer& layer) {
  Value x = operand(0);
  if (layer.beta != 1) {
    x.id = append(Affine{.factor = layer.beta}, {x.id});
    // The same codes of another scale.
    CodeGrid grid = x.grid;
    grid.scale = double{static_cast<float>(layer.beta * grid.scale)};
    check(std::isnormal(grid.scale) && grid.scale > 0,
          "has the factor {}, expected a positive number", layer.beta);
    if (x.is_quantized()) x = rounded(x.id, grid, unused(output_label() + ".scaled"));
  }
  const std::string label = output_label();
  settle({append(qtape::Softmax{}, {x.id}, label)}, label, false);
}

void ModelReader::add_layer(const FunctionLayer& layer) { finish(op_of(layer), operand(0)); }

void ModelReader::add_layer(const LimitLayer& layer) {
  finish(*op_of(layer.activation), operand(0));
}

void ModelReader::add_layer(const ReshapeLayer& layer) {
  const Value x = computed(0);
  const std::string label = output_label();
  const qtape::Reshape op{.shape = layer.shape};
  settle(apply(op, std::span(&x.id, 1), x, label), label, x.is_quantized());
}

void ModelReader::add_layer(const PadLayer& layer) {
  const Value x = operand(0);
  double value = double{layer.value};
  if (layer.code) value = (*layer.code - x.grid.zero_point) * x.grid.scale;
  finish(qtape::Pad{.begin = layer.begin, .end = layer.end, .value = value}, x);
}

void ModelReader::add_layer(const ConcatLayer& layer) {
  std::vector<NodeId> operands;
  for (size_t k = 0; k < view_.op().inputs.size(); ++k) operands.push_back(operand(k).id);
  const qtape::Concat concat{.axis = layer.axis, .count = static_cast<int>(operands.size())};
  finish(concat, operands, {});
}

void ModelReader::add_layer(const QuantizeLayer&) { settle(value(0), output_label()); }

void ModelReader::add_layer(const DequantizeLayer&) {
  check(code_type(view_.input(0).type).has_value(), "input 0 is {}, expected INT8 or INT16",
        name_of(view_.input(0).type));
  settle(computed(0), {});
}

}  // namespace qtape::tflite
