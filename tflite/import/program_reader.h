// A model while it is read as an integer program.
#pragma once

#include <initializer_list>
#include <string>

#include "qtape/integer/program/integer_node.h"
#include "qtape/tflite/import/layer_target.h"
#include "qtape/tflite/model_tensors.h"

namespace qtape::tflite {

class ProgramReader : public LayerTarget {
 public:
  explicit ProgramReader(OperatorView& view);

  bool takes(const OperatorReader& row) const override { return row.in_programs; }
  void add_input(int32_t tensor) override;
  void add(const Layer& layer) override;
  bool has_value(int32_t tensor) const override { return values_.find(tensor).has_value(); }
  void add_output(int32_t tensor) override;
  /// Returns the program, with its outputs.
  IntegerProgram finish();
  /// Returns the tensors of the values of the finished program.
  ModelTensors tensors(const IntegerProgram& program) const;

 private:
  void add_layer(const ConvLayer& layer);
  void add_layer(const LinearLayer& layer);
  void add_layer(const AddLayer& layer);
  void add_layer(const SubLayer& layer);
  void add_layer(const MulLayer& layer);
  void add_layer(const PoolLayer& layer);
  void add_layer(const MeanLayer& layer);
  void add_layer(const SoftmaxLayer& layer);
  void add_layer(const FunctionLayer& layer);
  void add_layer(const LimitLayer& layer);
  void add_layer(const ReshapeLayer& layer);
  void add_layer(const PadLayer& layer);
  void add_layer(const ConcatLayer& layer);
  void add_layer(const QuantizeLayer& layer);
  void add_layer(const DequantizeLayer& layer);

  /// Returns the value of input `k`: codes, or floats. Constants become nodes.
  ProgramNodeId value(size_t k);
  /// Returns the codes of input `k`.
  ProgramNodeId codes(size_t k);
  const IntegerValue& type_of(ProgramNodeId id) const { return program_[id].value; }
  /// Returns the grid of the output, limited by a fused activation.
  CodeGrid output_grid(Activation activation = Activation::None) const;
  ProgramNodeId append(IntegerOp op, std::initializer_list<ProgramNodeId> operands,
                       const std::string& label = {});
  /// Makes `id` the output of the operator; checks its shape.
  void finish(ProgramNodeId id);
  /// Adds the last node of the operator, with the name of its output.
  void finish(IntegerOp op, std::span<const ProgramNodeId> operands);
  void finish(IntegerOp op, std::initializer_list<ProgramNodeId> operands) {
    finish(std::move(op), std::span(operands.begin(), operands.size()));
  }
  /// Adds the requantization of `x` as the last node, within the bounds of 32 bits.
  void finish_requantized(ProgramNodeId x, const CodeGrid& grid);
  /// Adds the last node of an operator that keeps codes, and limits them by a fused activation.
  void finish_limited(IntegerOp op, ProgramNodeId x, Activation activation);
  /// Adds the product of codes `x` and its requantization.
  void finish_product(IntegerOp product, ProgramNodeId x, Activation activation);
  /// Returns weights for codes of `x`.
  static QuantizedWeights packed(const ProductWeights& weights, const IntegerValue& x);

  std::string unused(const std::string& name);

  OperatorView& view_;
  IntegerProgram program_{Requantization::DoubleRounding};
  TensorValues<ProgramNodeId> values_;
  NodeNames names_;
  std::vector<ProgramNodeId> outputs_;
};

}  // namespace qtape::tflite
