// Functions of each element, and functions along one axis.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "qtape/core/error.h"
#include "qtape/onnx/import/operators.h"
#include "qtape/onnx/import/quantized.h"

namespace qtape {
namespace {

constexpr double float_max = std::numeric_limits<float>::max();

struct PointwiseOperators : OnnxOperators {
  template <class X>
  void element();
  void leaky_relu();
  void elu();
  void selu();
  void celu();
  void softsign();
  void ceiling();
  void thresholded_relu();
  void shrink();
  void clip();
  void hard_sigmoid();
  void gelu();
  void reciprocal();
  void pow();
  void prelu();
  void softmax();
  void log_softmax();
  void lrn();

  /// Sets the output to `op` of operand 0.
  void apply(Op op);
  void give_as(OnnxValue a, Op op);
  NodeId slopes(const OnnxValue& a);
  NodeId above(NodeId x, double limit);
  template <class X>
  void along_axis();
  template <class X>
  void along_joined(OnnxValue a, int axis);
};

}  // namespace

void PointwiseOperators::give_as(OnnxValue a, Op op) {
  a.id = to.add(std::move(op), {a.id});
  give(std::move(a));
}

void PointwiseOperators::apply(Op op) { give_as(x(), std::move(op)); }

template <class X>
void PointwiseOperators::element() {
  apply(X{});
}

void PointwiseOperators::leaky_relu() { apply(onnx_leaky_relu(node)); }

void PointwiseOperators::elu() { apply(onnx_elu(node)); }

void PointwiseOperators::selu() {
  const float alpha = node.real("alpha", 1.67326319217681884765625f);
  const float gamma = node.real("gamma", 1.05070102214813232421875f);
  apply(Elu{.alpha = double{alpha}, .scale = double{gamma}});
}

void PointwiseOperators::celu() {
  const double alpha = double{node.real("alpha", 1)};
  expect(alpha > 0, "alpha must be above 0, got {}", alpha);
  settle();
  apply(Elu{.alpha = alpha, .input_scale = 1 / alpha});
}

/// Converts to -floor(-x).
void PointwiseOperators::ceiling() {
  OnnxValue a = x();
  a.id = to.add(Neg{}, {to.add(Floor{}, {to.add(Neg{}, {a.id})})});
  give(std::move(a));
}

void PointwiseOperators::softsign() {
  OnnxValue a = x();
  const NodeId below = to.add(Affine{.offset = 1}, {to.add(Abs{}, {a.id})});
  a.id = to.add(Mul{}, {a.id, to.add(Pow{.exponent = -1}, {below})});
  give(std::move(a));
}

/// Returns 1 where x is above `limit`, else 0.
NodeId PointwiseOperators::above(NodeId x, double limit) {
  return is_positive(to.add(Affine{.offset = -limit}, {x}));
}

/// Converts x where x > alpha, else 0.
void PointwiseOperators::thresholded_relu() {
  const float alpha = node.real("alpha", 1);
  if (alpha == 0) return apply(Relu{});
  OnnxValue a = x();
  a.id = to.add(Mul{}, {a.id, above(a.id, double{alpha})});
  give(std::move(a));
}

/// Converts x - bias where x > lambd, x + bias where x < -lambd, else 0.
void PointwiseOperators::shrink() {
  const double bias = double{node.real("bias", 0)}, lambd = double{node.real("lambd", 0.5f)};
  expect(lambd >= 0, "lambd must be at least 0, got {}", lambd);
  OnnxValue a = x();
  if (bias != lambd) {
    const NodeId high = above(a.id, lambd);
    const NodeId low = above(to.add(Neg{}, {a.id}), lambd);
    const NodeId sign = to.add(Sub{}, {high, low});
    const NodeId moved = to.add(Mul{}, {a.id, to.add(Abs{}, {sign})});
    a.id = to.add(Sub{}, {moved, to.add(Affine{.factor = bias}, {sign})});
    return give(std::move(a));
  }
  const NodeId inside = to.add(Clamp{.low = -lambd, .high = lambd}, {a.id});
  a.id = to.add(Sub{}, {a.id, inside});
  give(std::move(a));
}

void PointwiseOperators::clip() {
  if (to.holds_codes(node.input(0))) return clip_onnx_codes(*this);
  const auto bound = [&](const char* name, int k, double fallback) {
    if (node.has(name)) return double{node.real(name, 0)};
    return to.has_input(node, k) ? double{to.floats(node, k, 1)[0]} : fallback;
  };
  const double low = std::max(bound("min", 1, -float_max), -float_max);
  const double high = std::min(bound("max", 2, float_max), float_max);
  const bool open = high >= float_max;
  if (low == 0 && open) return apply(Relu{});
  if (low == 0 && high == 6) return apply(Relu6{});
  // As ONNX defines it, the upper end wins where they cross.
  apply(Clamp{.low = std::min(low, high), .high = high});
}

void PointwiseOperators::hard_sigmoid() {
  const float alpha = node.real("alpha", 0.2f), beta = node.real("beta", 0.5f);
  if (const auto op = onnx_hard_sigmoid(alpha, beta)) return apply(*op);
  OnnxValue a = x();
  a.id = to.add(Affine{.factor = double{alpha}, .offset = double{beta}}, {a.id});
  give_as(std::move(a), Clamp{.low = 0, .high = 1});
}

void PointwiseOperators::gelu() {
  const std::string form = node.text("approximate", "none");
  const bool tanh = form == "tanh";
  expect(tanh || form == "none", "the approximation {} is not supported", printable(form));
  apply(Gelu{.form = tanh ? GeluForm::Tanh : GeluForm::Erf});
}

void PointwiseOperators::reciprocal() { apply(Pow{.exponent = -1}); }

void PointwiseOperators::pow() {
  const OnnxConstant* found = to.find_constant(node.input(1));
  expect(found != nullptr || to.is_unknown(node.input(1)),
         "the exponent, '{}', must be a constant", printable(node.input(1)));
  settle();
  const OnnxConstant& power = to.constant(node, 1);
  require<FormatError>(
      power.shape.elements() == 1 && power.shape.rank() <= to.moved_value(node, 0).rank(),
      "the exponent must be one number, got {}", to_string(power.shape));
  const double exponent =
      power.is_float ? double{power.floats[0]} : static_cast<double>(power.integers[0]);
  if (exponent == 0.5) return apply(Sqrt{});
  apply(Pow{.exponent = exponent});
}

/// Returns the slopes of a PRelu: one, or one for each channel of `a`.
NodeId PointwiseOperators::slopes(const OnnxValue& a) {
  const OnnxConstant& slope = to.constant(node, 1);
  require<FormatError>(slope.is_float, "the slopes must be floats");
  const int64_t count = slope.shape.elements();
  const std::string label = to.layer_label(node);
  if (count == 1) return to.add_parameter(node.input(1), {1}, slope.floats, label, "weight");
  // Of a value with channels last, [c, 1, ...] is one slope for each channel.
  const bool last = a.layout == OnnxLayout::ChannelsLast;
  const int axis = last ? 1 : a.rank() - 1;
  const int from_end = a.rank() - axis;
  const int64_t channels = a.shape[static_cast<size_t>(axis)];
  require<FormatError>(slope.shape.rank() >= from_end && slope.shape[-from_end] == channels &&
                           count == channels && a.layout != OnnxLayout::Flat,
                       "slopes of {} for {} are not supported: use one slope, or one for each "
                       "channel",
                       to_string(slope.shape), extents_text(a.shape));
  return to.add_parameter(node.input(1), {channels}, slope.floats, label, "weight");
}

void PointwiseOperators::prelu() {
  expect_weights(1, 0, "floats");
  OnnxValue a = x();
  const OnnxConstant& slope = to.constant(node, 1);
  const bool by_channel = slope.shape.rank() == a.rank() - 1 && slope.shape.elements() > 1;
  if (a.rank() >= 3 && by_channel && slope.shape[-1] == 1) a = to.to_channels_last(a);
  const NodeId slope_id = slopes(a);
  a.id = to.add(PRelu{}, {a.id, slope_id}, to.node_label(node, "prelu"));
  give(std::move(a));
}

/// Applies X to all elements from `axis` on as one axis, as opsets before 13 define it.
template <class X>
void PointwiseOperators::along_joined(OnnxValue a, int axis) {
  if (axis > 1) a = to.to_same(a);
  int64_t joined = 1;
  for (int k = axis; k < a.rank(); ++k) joined *= a.shape[static_cast<size_t>(k)];
  std::vector<int64_t> rows = {-1};
  for (int k = 1; k < axis; ++k) rows.push_back(a.shape[static_cast<size_t>(k)]);
  rows.push_back(joined);
  const auto extents = to.graph()[a.id].type.shape.extents();
  std::vector<int64_t> back(extents.begin(), extents.end());
  back[0] = -1;
  const NodeId y = to.add(X{.axis = axis}, {to.add(Reshape{.shape = rows}, {a.id})});
  a.id = to.add(Reshape{.shape = back}, {y});
  give(std::move(a));
}

template <class X>
void PointwiseOperators::along_axis() {
  const int64_t given = node.integer("axis", to.opset() < 13 ? 1 : -1);
  OnnxValue a = x();
  const int axis = onnx_axis(given, a.rank());
  require<OnnxMixedSamples>(axis != 0, "axis 0 would join samples");
  const auto behind = a.shape.begin() + axis + 1;
  const bool single = std::all_of(behind, a.shape.end(), [](int64_t n) { return n == 1; });
  if (to.opset() < 13 && !single) return along_joined<X>(std::move(a), axis);
  const int physical = a.layout == OnnxLayout::Flat ? 1 : OnnxImporter::physical_axis(a, axis);
  give_as(std::move(a), X{.axis = physical});
}

void PointwiseOperators::softmax() { along_axis<Softmax>(); }
void PointwiseOperators::log_softmax() { along_axis<LogSoftmax>(); }

/// Divides each element by a power of the mean square of the channels around it.
void PointwiseOperators::lrn() {
  const double alpha = double{node.real("alpha", 1e-4f)};
  const double beta = double{node.real("beta", 0.75f)};
  const double bias = double{node.real("bias", 1)};
  const int64_t size = node.integer("size", 0);
  expect(size >= 1 && size <= Shape::max_elements, "size must be at least 1, got {}", size);
  OnnxValue a = x();
  a = a.rank() >= 3 ? to.to_channels_last(a) : to.to_same(a);
  require<FormatError>(a.rank() >= 2, "expected an input of rank 2 to 4, got rank {}",
                       a.rank());
  const auto extents = to.graph()[a.id].type.shape.extents();
  std::vector<int64_t> shape(extents.begin(), extents.end());
  shape[0] = -1;
  int64_t places = 1;
  for (size_t k = 1; k + 1 < shape.size(); ++k) places *= shape[k];
  // The channels of a pixel are a row of an image with one channel.
  NodeId mean = to.add(Pow{}, {a.id});
  mean = to.add(Reshape{.shape = {-1, places, shape.back(), 1}}, {mean});
  mean = to.add(AvgPool{.kernel = {1, size},
                        .stride = {1, 1},
                        .padding = Padding::Explicit,
                        .pads_begin = {0, (size - 1) / 2},
                        .pads_end = {0, size - 1 - (size - 1) / 2}},
                {mean});
  mean = to.add(Reshape{.shape = shape}, {mean});
  const NodeId base = to.add(Affine{.factor = alpha, .offset = bias}, {mean});
  a.id = to.add(Mul{}, {a.id, to.add(Pow{.exponent = -beta}, {base})});
  give(std::move(a));
}

namespace {

constexpr OnnxOperator pointwise_rows[] = {
    {"Relu", convert<&PointwiseOperators::element<Relu>>, true},
    {"Sigmoid", convert<&PointwiseOperators::element<Sigmoid>>, true},
    {"Tanh", convert<&PointwiseOperators::element<Tanh>>, true},
    {"Exp", convert<&PointwiseOperators::element<Exp>>, true},
    {"Log", convert<&PointwiseOperators::element<Log>>, true},
    {"Neg", convert<&PointwiseOperators::element<Neg>>, true},
    {"Abs", convert<&PointwiseOperators::element<Abs>>, true},
    {"Sqrt", convert<&PointwiseOperators::element<Sqrt>>, true},
    {"Erf", convert<&PointwiseOperators::element<Erf>>, true},
    {"Sin", convert<&PointwiseOperators::element<Sin>>, true},
    {"Cos", convert<&PointwiseOperators::element<Cos>>, true},
    {"Atan", convert<&PointwiseOperators::element<Atan>>, true},
    {"Sign", convert<&PointwiseOperators::element<Signum>>, true},
    {"Floor", convert<&PointwiseOperators::element<Floor>>, true},
    {"Ceil", convert<&PointwiseOperators::ceiling>, true},
    {"Round", convert<&PointwiseOperators::element<Round>>, true},
    {"Mish", convert<&PointwiseOperators::element<Mish>>, true},
    {"Softplus", convert<&PointwiseOperators::element<Softplus>>, true},
    {"HardSwish", convert<&PointwiseOperators::element<HardSwish>>, true},
    {"Softsign", convert<&PointwiseOperators::softsign>, true},
    {"Reciprocal", convert<&PointwiseOperators::reciprocal>, true},
    {"LeakyRelu", convert<&PointwiseOperators::leaky_relu>, true},
    {"PRelu", convert<&PointwiseOperators::prelu>},
    {"Elu", convert<&PointwiseOperators::elu>, true},
    {"Selu", convert<&PointwiseOperators::selu>, true},
    {"Celu", convert<&PointwiseOperators::celu>, true},
    {"ThresholdedRelu", convert<&PointwiseOperators::thresholded_relu>, true},
    {"Shrink", convert<&PointwiseOperators::shrink>, true},
    {"Clip", convert<&PointwiseOperators::clip>, true},
    {"HardSigmoid", convert<&PointwiseOperators::hard_sigmoid>, true},
    {"Gelu", convert<&PointwiseOperators::gelu>, true},
    {"Pow", convert<&PointwiseOperators::pow>, true},
    {"Softmax", convert<&PointwiseOperators::softmax>},
    {"LogSoftmax", convert<&PointwiseOperators::log_softmax>},
    {"LRN", convert<&PointwiseOperators::lrn>}};

}  // namespace

std::span<const OnnxOperator> pointwise_conversions() { return pointwise_rows; }

}  // namespace qtape
