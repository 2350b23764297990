// A model while it is read as a graph with its values.
#pragma once

#include <initializer_list>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "qtape/engine/serialize.h"
#include "qtape/tflite/import/layer_target.h"
#include "qtape/tflite/import/model_notes.h"

namespace qtape::tflite {

class ModelReader : public LayerTarget {
 public:
  explicit ModelReader(OperatorView& view);

  bool takes(const OperatorReader&) const override { return true; }
  void add_input(int32_t tensor) override;
  void add(const Layer& layer) override;
  bool has_value(int32_t tensor) const override { return values_.find(tensor).has_value(); }
  void add_output(int32_t tensor) override;
  /// Returns the model, with its outputs.
  SavedModel finish();
  const ModelNotes& notes() const { return notes_; }

 private:
  /// The value of a tensor.
  struct Value {
    NodeId id;
    NodeId quantizer;    ///< whose codes it has; index -1 for floats
    CodeGrid grid = {};  ///< of the quantizer

    bool is_quantized() const { return quantizer.index >= 0; }
  };

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

  /// Returns the value of input `k`, which has the type of the output; quantized if the tensor
  /// has codes.
  Value operand(size_t k);
  /// The same without regard to types.
  Value value(size_t k);
  /// Returns the value of input `k` as it was computed: a softmax has no quantizer yet.
  Value computed(size_t k);
  Value constant(size_t k);
  /// Returns the number of input `k` if it is a constant of one element.
  std::optional<float> number(size_t k) const;
  /// Returns `x`, rounded to the grid of `tensor` unless it has its codes.
  Value quantized(const Value& x, int32_t tensor, const std::string& label);
  /// Returns `x`, rounded to `grid`.
  Value rounded(NodeId x, const CodeGrid& grid, const std::string& label);

  NodeId append(const Op& op, std::initializer_list<NodeId> operands,
                const std::string& label = {});
  /// Adds an op whose operand 0 is `x`.
  Value apply(const Op& op, std::span<const NodeId> operands, const Value& x,
              const std::string& label);
  /// Returns the parameter with these values of a tensor, which operators share.
  NodeId parameter(int32_t tensor, const Shape& shape, const std::vector<float>& values);
  /// Returns weights, quantized if they have codes.
  NodeId weights(const ProductWeights& weights);
  /// Returns the bias, rounded to the grid of sums if it has codes.
  NodeId bias(const ProductWeights& weights, const Value& x, NodeId w);
  std::vector<float> bias_values(const ProductWeights& weights, const Value& x);

  /// Adds a product and its bias, and finishes the operator.
  void finish_product(const Op& product, const Value& x, const ProductWeights& layer,
                      Activation activation);
  template <class X>
  void add_pair(Activation activation);
  /// Adds the last op of the operator with operand 0 `x`, an activation, and a quantizer if the
  /// output has codes.
  void finish(const Op& op, std::span<const NodeId> operands, const Value& x,
              Activation activation = Activation::None);
  void finish(const Op& op, const Value& x, Activation activation = Activation::None) {
    finish(op, std::span(&x.id, 1), x, activation);
  }
  /// Makes `value` the output; of codes if these are `rounded`.
  void settle(const Value& value, const std::string& label, bool rounded = true);

  /// Returns the name of a tensor without the ending of its quantizer's label, `.quantized`, or
  /// a name with its index.
  std::string label_of(int32_t tensor) const;
  /// Returns a name that no node has, nor a quantizer and its states.
  std::string unused(const std::string& name);
  std::string output_label() { return unused(label_of(view_.op().outputs[0])); }

  OperatorView& view_;
  Graph graph_;
  TensorValues<Value> values_;
  NodeNames names_;
  ModelNotes notes_;
  std::vector<NodeId> outputs_;
  std::map<std::string, Tensor> parameters_;
  std::vector<std::pair<NodeId, std::vector<QParams<double>>>> scales_;  // of quantizers
  std::map<int32_t, NodeId> leaves_;     // last parameter of a tensor
  std::map<NodeId, NodeId> quantizers_;  // of weights
};

}  // namespace qtape::tflite
