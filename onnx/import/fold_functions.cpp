// Activations of constants, such as the softmax of a matrix of parameters.
#include "qtape/engine/tape.h"
#include "qtape/onnx/import/folds.h"

namespace qtape {
namespace {

struct FunctionFolds : FoldOperators {
  /// Sets the output to what the op computes of the input.
  void apply(const Op& op);

  template <class X>
  void element() {
    apply(X{});
  }
  template <class X>
  void along_axis();
  void leaky_relu() { apply(onnx_leaky_relu(node)); }
  void elu() { apply(onnx_elu(node)); }
  void hard_sigmoid();
};

}  // namespace

void FunctionFolds::apply(const Op& op) {
  const OnnxConstant& a = input(0);
  require<FormatError>(a.is_float, "{} of integers is not supported", node.type());
  Graph graph;
  const NodeId x = graph.add(Parameter{.shape = a.shape}, {}, "x");
  const NodeId y = graph.add(op, {x});
  Parameters parameters(graph, 0);
  parameters.set("x", Tensor::of<float>(a.shape, std::span(a.floats)));
  Tape tape(graph, parameters, {.outputs = {y}, .threads = 1});
  tape.forward(mode::eval);
  const std::span<const float> values = tape.value<float>(y);
  finish({.shape = a.shape, .floats = {values.begin(), values.end()}});
}

template <class X>
void FunctionFolds::along_axis() {
  const OnnxConstant& a = input(0);
  const int axis = onnx_axis(node.integer("axis", to.opset() < 13 ? 1 : -1), a.shape.rank());
  require<FormatError>(a.batch_axis < 0, "a constant for each sample is not supported");
  require<FormatError>(to.opset() >= 13 || axis == a.shape.rank() - 1,
                       "axis {} of constants of {} is supported from opset 13 on", axis,
                       to_string(a.shape));
  apply(X{.axis = axis});
}

void FunctionFolds::hard_sigmoid() {
  const float alpha = node.real("alpha", 0.2f), beta = node.real("beta", 0.5f);
  const auto op = onnx_hard_sigmoid(alpha, beta);
  require<FormatError>(
      op.has_value(), "HardSigmoid of constants has alpha {} and beta {}, expected 1/6 and 0.5",
      alpha, beta);
  apply(*op);
}

namespace {

constexpr OnnxOperator function_rows[] = {
    {"Erf", convert<&FunctionFolds::element<Erf>>},
    {"Softplus", convert<&FunctionFolds::element<Softplus>>},
    {"HardSwish", convert<&FunctionFolds::element<HardSwish>>},
    {"Mish", convert<&FunctionFolds::element<Mish>>},
    {"LeakyRelu", convert<&FunctionFolds::leaky_relu>},
    {"Elu", convert<&FunctionFolds::elu>},
    {"HardSigmoid", convert<&FunctionFolds::hard_sigmoid>},
    {"Softmax", convert<&FunctionFolds::along_axis<Softmax>>},
    {"LogSoftmax", convert<&FunctionFolds::along_axis<LogSoftmax>>}};

}  // namespace

std::span<const OnnxOperator> function_folds() { return function_rows; }

}  // namespace qtape
