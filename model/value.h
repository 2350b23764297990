// Networks as expressions: values, layers that take and give them, and operators.
//
//   Network net;
//   Value x = quantized(net.input("image", {28, 28, 1}), quantize::activations(8));
//   Value h = relu(linear(flatten(x), 128, quantize::layer(4, 8)));
//
// A value is a node of a graph that grows with each expression; everything that a graph can do,
// `node` can. Functions throw GraphError, which names the node, for operands that do not fit,
// and for values of different networks.
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
  /// Extents of one sample, or of the whole for what depends on no input.
  Shape shape() const;
  DType dtype() const;
  NodeId id() const { return id_; }
  /// The graph so far. Batched inputs have a batch extent of 1 in it.
  const Graph& graph() const;

 private:
  friend class Network;
  friend Value node(Op op, std::span<const Value> operands, std::string label);
  friend struct detail::Building;
  Value(std::shared_ptr<detail::Building> building, NodeId id);

  std::shared_ptr<detail::Building> building_;
  NodeId id_;
};

/// Where inputs come from. Values keep what they need of it.
class Network {
 public:
  Network();
  /// An input whose samples have this shape; a batch extent comes where the network runs.
  /// Throws GraphError for a label in use.
  Value input(std::string label, const Shape& sample, DType dtype = DType::F32);

 private:
  std::shared_ptr<detail::Building> building_;
};

/// The node that `op` makes of `operands`, at least one. Nodes that need a label and have none
/// are given one.
Value node(Op op, std::span<const Value> operands, std::string label = {});
/// The same for operands that are listed.
Value node(Op op, std::initializer_list<Value> operands, std::string label = {});

/// What most layers take. Labels are made where they are empty: fc1, fc2, conv1, gru1, ...
struct Layer {
  std::optional<Op> weights = {};      ///< quantizes weights
  std::optional<Op> activations = {};  ///< quantizes x, unless it is quantized already
  bool bias = true;
  bool norm = false;  ///< with a batch norm that is folded into the layer: see LayerOptions
  /// Of the weights; without one KaimingNormal, and XavierUniform of recurrent layers.
  std::optional<Initializer> initializer = {};
  std::string label = {};
};

/// x w^T + b of `out` features.
Value linear(const Value& x, int64_t out, const Layer& layer = {});
/// The same with a quantizer of the weights alone.
Value linear(const Value& x, int64_t out, const Op& weight_quantizer);
/// Convolutions of `out` channels over [h, w, c].
Value conv2d(const Value& x, int64_t out, const Shape& kernel, const Layer& layer = {},
             const Conv2d& op = {});
/// Convolutions of `out` channels over [l, c].
Value conv1d(const Value& x, int64_t out, int64_t kernel, const Layer& layer = {},
             const Conv1d& op = {});
/// Convolutions of each channel by itself.
Value depthwise_conv2d(const Value& x, const Shape& kernel, const Layer& layer = {},
                       const Conv2d& op = {});
/// The same over [l, c].
Value depthwise_conv1d(const Value& x, int64_t kernel, const Layer& layer = {},
                       const Conv1d& op = {});
/// A batch norm over the last axis.
Value batch_norm(const Value& x, const BatchNorm& op = {}, const std::string& label = {});

/// A gated recurrent unit over x [steps, c] of each sample: h [hidden] after each step, from
/// zeros; `.back()` is the last. Formulas, labels and the order of weights: model/recurrent.h.
/// With `activations` everything that a step computes is quantized, so it has integers. Throws
/// GraphError for a layer without bias or with a norm.
std::vector<Value> gru(const Value& x, int64_t hidden, const Layer& layer = {});
/// The same from a state of its own, h [hidden].
std::vector<Value> gru(const Value& x, const Value& h, const Layer& layer = {});

/// The state of an LSTM, both [hidden].
struct LstmValues {
  Value h;
  Value c;
};
/// Long short-term memory over x [steps, c] of each sample: the state after each step, from
/// zeros; otherwise as `gru`.
std::vector<LstmValues> lstm(const Value& x, int64_t hidden, const Layer& layer = {});
/// The same from a state of its own.
std::vector<LstmValues> lstm(const Value& x, const LstmValues& state, const Layer& layer = {});

/// x on the grid of `quantizer`; x itself where it is quantized or shows what is.
Value quantized(const Value& x, const Op& quantizer, const std::string& label = {});

/// max(x, 0).
Value relu(const Value& x);
/// min(max(x, 0), 6).
Value relu6(const Value& x);
/// tanh(x).
Value tanh(const Value& x);
/// 1 / (1 + e^-x).
Value sigmoid(const Value& x);
/// x times the normal distribution function of x.
Value gelu(const Value& x);
/// e^x.
Value exp(const Value& x);
/// The natural logarithm; NaN below 0.
Value log(const Value& x);
/// The square root; NaN below 0.
Value sqrt(const Value& x);
/// |x|; its gradient at 0 is 0.
Value abs(const Value& x);
/// x x. In integers x is quantized before.
Value square(const Value& x);
/// x limited to low .. high.
Value clamp(const Value& x, double low, double high);
/// The mean over all elements of the batch, a scalar: the end of a loss.
Value mean(const Value& x);
/// The mean over axes of the sample, which it lacks then; negative ones count from the back.
Value mean(const Value& x, const std::vector<int>& axes);
/// The sum over all elements of the batch, a scalar.
Value sum(const Value& x);
/// The sum over axes of the sample.
Value sum(const Value& x, const std::vector<int>& axes);
/// All axes of a sample joined.
Value flatten(const Value& x);
/// A sample in another shape; one extent may be -1.
Value reshape(const Value& x, const std::vector<int64_t>& sample);
/// Windows over [h, w, c]; the stride is the kernel's size unless `op` says other.
Value max_pool(const Value& x, const Shape& kernel);
/// Means over the same windows.
Value avg_pool(const Value& x, const Shape& kernel);
/// The mean of each channel over all positions.
Value global_avg_pool(const Value& x);
/// While training, 0 with probability `rate`, in [0, 1), and x / (1 - rate) else.
Value dropout(const Value& x, double rate);
/// Samples side by side along `axis` of the sample, the last one by default.
Value concat(std::initializer_list<Value> parts, int axis = -1);
/// The same of values that are not listed, as the steps of `gru`.
Value concat(std::span<const Value> parts, int axis = -1);

/// a + b, broadcast. In integers, as a - b and a b, of two quantized values of one shape.
Value operator+(const Value& a, const Value& b);
/// a - b, broadcast.
Value operator-(const Value& a, const Value& b);
/// a b, broadcast.
Value operator*(const Value& a, const Value& b);
/// a / b, broadcast. Has no integers.
Value operator/(const Value& a, const Value& b);
/// -x.
Value operator-(const Value& x);

// With a number all but number / x are Affine, which is a table of codes in integers. Throw
// GraphError for numbers that are not finite, and for 0 as a divisor.
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
/// x times 1 / number, which is rounded to the dtype of x first.
Value operator/(const Value& x, double number);
/// number / x. Has no integers.
Value operator/(double number, const Value& x);

/// Makes of what a network answers a scalar that training makes small.
using Loss = std::function<Value(const Value& answer)>;

/// Losses: values that gradients start at. Regressions have mean_squared_error, l1 and huber,
/// classifiers cross_entropy; anything else is an expression.
namespace loss {

/// Softmax and cross-entropy against labels, s32, which become an input.
Value cross_entropy(const Value& logits);
/// The mean squared difference (MSE) from a target of the same shape, which becomes an input.
Value mean_squared_error(const Value& y);
/// The mean absolute difference (MAE, L1) from such a target.
Value l1(const Value& y);
/// The mean of d^2 / 2 where |d| <= delta, else delta (|d| - delta / 2), d being the difference
/// from such a target: `Model(y, loss::huber(0.5))`. Huber, 1964. Throws ArgumentError unless
/// delta is finite and above 0.
Loss huber(double delta = 1);

}  // namespace loss

/// Quantizers by their bits.
namespace quantize {

/// A quantizer with which training computes what ships: weights symmetric by output channel,
/// the scale that of their largest; outside of the range no gradient passes.
FakeQuantize weights(int bits = 8);
/// The same for activations: affine, by running averages of their range.
FakeQuantize activations(int bits = 8);
/// Both for a layer.
Layer layer(int weight_bits = 8, int activation_bits = 8);

}  // namespace quantize

}  // namespace qtape
