// Networks as expressions: values, layers as functions of values, and operators.
//
//   Network net;
//   Value x = quantized(net.input("image", {28, 28, 1}), quantize::activations(8));
//   Value h = relu(linear(flatten(x), 128, quantize::layer(4, 8)));
//
// A value is a node of a graph that grows with each expression; `node` adds any op that has
// operands, `Network` leaves. Functions throw GraphError, which names the node, for operands
// that do not fit and for values of different networks, and then add nothing.
#pragma once

#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "qtape/engine/graph.h"
#include "qtape/model/layers.h"

namespace qtape {

namespace detail {
struct Building;
}

/// A node of a network that grows with each expression.
class Value {
 public:
  // No moves, which would leave an empty value.
  Value(const Value&) = default;
  Value& operator=(const Value&) = default;
  ~Value() = default;

  /// Returns the shape of one sample, or the whole shape for values that depend on no input.
  Shape shape() const;
  DType dtype() const;
  NodeId id() const { return id_; }
  /// Returns the graph so far, in which batched inputs have a batch extent of 1.
  const Graph& graph() const;

 private:
  friend class Network;
  friend Value node(Op op, std::span<const Value> operands, std::string label);
  friend struct detail::Building;
  Value(std::shared_ptr<detail::Building> building, NodeId id);

  std::shared_ptr<detail::Building> building_;
  NodeId id_;
};

/// Source of inputs and other leaves. Values keep the network's graph alive.
class Network {
 public:
  Network();
  Network(const Network&) = default;
  Network& operator=(const Network&) = default;
  ~Network() = default;

  /// Adds an input whose samples have this shape; the batch extent is set when the network
  /// runs. Throws GraphError for a label in use.
  Value input(std::string label, const Shape& sample, DType dtype = DType::F32);
  /// Adds a trained f32 tensor, for operands of `node` and for weights that several nodes
  /// share. Throws GraphError for an empty label or one in use.
  Value parameter(std::string label, const Shape& shape,
                  Initializer initializer = init::XavierUniform{});
  /// Adds a tensor that is not trained.
  Value constant(Tensor tensor);

 private:
  std::shared_ptr<detail::Building> building_;
};

/// Adds the node that applies `op` to `operands`, of which there must be at least one. Nodes
/// that require a label get a generated one if `label` is empty.
Value node(Op op, std::span<const Value> operands, std::string label = {});
/// Adds a node; operands are given as a list.
Value node(Op op, std::initializer_list<Value> operands, std::string label = {});

/// Common options of layers. Empty labels are replaced by generated ones: fc1, fc2, conv1,
/// gru1, ...
struct Layer {
  std::optional<Op> weights = {};      ///< quantizer of weights
  std::optional<Op> activations = {};  ///< quantizer of x, unless x is quantized already
  bool bias = true;
  bool norm = false;  ///< adds a batch norm that is folded into the layer, see LayerOptions
  /// Initializer of the weights; if empty KaimingNormal, or XavierUniform for recurrent layers.
  std::optional<Initializer> initializer = {};
  std::string label = {};
};

/// x w^T + b with `out` features.
Value linear(const Value& x, int64_t out, const Layer& layer = {});
/// x w^T + b with a quantizer only for the weights.
Value linear(const Value& x, int64_t out, const Op& weight_quantizer);
/// Convolution with `out` channels over [h, w, c].
Value conv2d(const Value& x, int64_t out, const Shape& kernel, const Layer& layer = {},
             const Conv2d& op = {});
/// Convolution with `out` channels over [l, c].
Value conv1d(const Value& x, int64_t out, int64_t kernel, const Layer& layer = {},
             const Conv1d& op = {});
/// Depthwise convolution over [h, w, c].
Value depthwise_conv2d(const Value& x, const Shape& kernel, const Layer& layer = {},
                       const Conv2d& op = {});
/// Depthwise convolution over [l, c].
Value depthwise_conv1d(const Value& x, int64_t kernel, const Layer& layer = {},
                       const Conv1d& op = {});
/// Batch norm over the last axis.
Value batch_norm(const Value& x, const BatchNorm& op = {}, const std::string& label = {});

/// Gated recurrent unit over x [steps, c] of each sample: h [hidden] after each step, starting
/// from zeros; `.back()` is the last. For formulas, labels and the order of weights see
/// model/recurrent.h. With `activations` every intermediate value is quantized, so the layer
/// has an integer form. Throws GraphError for a layer without bias or with a norm.
std::vector<Value> gru(const Value& x, int64_t hidden, const Layer& layer = {});
/// Gated recurrent unit that starts from the state h [hidden].
std::vector<Value> gru(const Value& x, const Value& h, const Layer& layer = {});

/// State of an LSTM, both values [hidden].
struct LstmValues {
  Value h;
  Value c;
};
/// Long short-term memory over x [steps, c] of each sample: the state after each step, starting
/// from zeros; otherwise like `gru`.
std::vector<LstmValues> lstm(const Value& x, int64_t hidden, const Layer& layer = {});
/// Long short-term memory that starts from `state`.
std::vector<LstmValues> lstm(const Value& x, const LstmValues& state, const Layer& layer = {});

/// x quantized by `quantizer`; x itself if it is quantized already or is a view of a quantized
/// value.
Value quantized(const Value& x, const Op& quantizer, const std::string& label = {});

/// max(x, 0).
Value relu(const Value& x);
/// min(max(x, 0), 6).
Value relu6(const Value& x);
/// tanh(x).
Value tanh(const Value& x);
/// 1 / (1 + e^-x).
Value sigmoid(const Value& x);
/// x times the normal cumulative distribution function of x.
Value gelu(const Value& x);
/// e^x.
Value exp(const Value& x);
/// The natural logarithm; NaN below 0.
Value log(const Value& x);
/// The square root; NaN below 0.
Value sqrt(const Value& x);
/// |x|; its gradient at 0 is 0.
Value abs(const Value& x);
/// x x. Its integer form requires that x is quantized.
Value square(const Value& x);
/// x clamped to [low, high].
Value clamp(const Value& x, double low, double high);
/// The mean over all elements of the batch, a scalar, for use in losses.
Value mean(const Value& x);
/// The mean over axes of the sample, which are removed; negative axes count from the back.
Value mean(const Value& x, const std::vector<int>& axes);
/// The sum over all elements of the batch, a scalar.
Value sum(const Value& x);
/// The sum over axes of the sample, which are removed.
Value sum(const Value& x, const std::vector<int>& axes);
/// Each sample flattened to one axis.
Value flatten(const Value& x);
/// Each sample in another shape; one extent may be -1.
Value reshape(const Value& x, const std::vector<int64_t>& sample);
/// Max-pooling over [h, w, c]; the stride equals the kernel size.
Value max_pool(const Value& x, const Shape& kernel);
/// Average pooling over the same windows.
Value avg_pool(const Value& x, const Shape& kernel);
/// The mean of each channel over all positions.
Value global_avg_pool(const Value& x);
/// In training, 0 with probability `rate`, in [0, 1), and x / (1 - rate) otherwise; x in
/// evaluation.
Value dropout(const Value& x, double rate);
/// Concatenation of samples along `axis` of the sample, by default the last one.
Value concat(std::initializer_list<Value> parts, int axis = -1);
/// Concatenation of a span of values, such as the steps of `gru`.
Value concat(std::span<const Value> parts, int axis = -1);

/// a + b. As in all operators with two values, samples broadcast, aligned at their last axis.
/// C++ does not specify which operand is evaluated first: create layers and losses in separate
/// statements, because otherwise the numbers in their generated labels depend on the
/// compiler. For an integer form, as for a - b and a b, both operands must be
/// quantized.
Value operator+(const Value& a, const Value& b);
/// a - b.
Value operator-(const Value& a, const Value& b);
/// a b.
Value operator*(const Value& a, const Value& b);
/// a / b. docs/limits.md states when it has an integer form.
Value operator/(const Value& a, const Value& b);
/// -x.
Value operator-(const Value& x);

// With a number, all operators except number / x become Affine, which is a lookup table in
// integer programs. They throw GraphError for numbers that are not finite and for division by
// 0.
/// x + number.
Value operator+(const Value& x, double number);
/// number + x.
Value operator+(double number, const Value& x);
/// x - number.
Value operator-(const Value& x, double number);
/// number - x.
Value operator-(double number, const Value& x);
/// number x.
Value operator*(const Value& x, double number);
/// number x.
Value operator*(double number, const Value& x);
/// x times 1 / number, where 1 / number is first rounded to the dtype of x.
Value operator/(const Value& x, double number);
/// number / x. Has no integer form.
Value operator/(double number, const Value& x);

/// Computes from a network's answer a scalar that training minimizes.
using Loss = std::function<Value(const Value& answer)>;

/// Losses: values from which gradients start. mean_squared_error, l1 and huber are for
/// regression, cross_entropy for classification; any other loss can be written as an
/// expression.
namespace loss {

/// Softmax and cross-entropy with s32 labels, which become an input.
Value cross_entropy(const Value& logits);
/// Mean squared error (MSE) relative to a target of the same shape, which becomes an input.
Value mean_squared_error(const Value& y);
/// Mean absolute error (MAE, L1) relative to a target of the same shape, which becomes an
/// input.
Value l1(const Value& y);
/// Mean of d^2 / 2 where |d| <= delta, otherwise delta (|d| - delta / 2), where d is the
/// difference from a target of the same shape, which becomes an input. Huber, 1964. Example:
/// `Model(y, loss::huber(0.5))`. Throws ArgumentError unless delta is finite and above 0.
Loss huber(double delta = 1);

}  // namespace loss

/// Quantizers by number of bits.
namespace quantize {

/// Quantizer for weights in quantization-aware training: symmetric per output channel, with the
/// scale of the largest magnitude; no gradient passes outside the range.
FakeQuantize weights(int bits = 8);
/// Quantizer for activations in quantization-aware training: affine, with running averages of
/// the range; no gradient passes outside the range.
FakeQuantize activations(int bits = 8);
/// Layer options with both quantizers.
Layer layer(int weight_bits = 8, int activation_bits = 8);

}  // namespace quantize

}  // namespace qtape
