#include "qtape/model/value.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "qtape/engine/labels.h"
#include "qtape/engine/quantizers.h"
#include "qtape/integer/rules/quantizer_of.h"
#include "qtape/model/recurrent.h"

namespace qtape {
namespace detail {

/// A growing graph, shared by its values.
struct Building {
  Graph graph;

  /// Returns `stem` with the smallest number from 1 for which it and derived labels are free.
  std::string numbered(std::string_view stem) const {
    for (int64_t number = 1;; ++number) {
      std::string label = fmt::format("{}{}", stem, number);
      if (!taken(label)) return label;
    }
  }

  static Value value(const std::shared_ptr<Building>& building, NodeId id) {
    return {building, id};
  }
  static const std::shared_ptr<Building>& of(const Value& value) { return value.building_; }

 private:
  bool taken(const std::string& label) const {
    return graph.find(label) || graph.find(label + ".weight") || graph.find(label + ".gamma") ||
           graph.find(label + ".input");
  }
};

}  // namespace detail

namespace {

using detail::Building;

LayerOptions options_of(const Value& x, int64_t out, const Layer& layer,
                        std::string_view stem) {
  const Building& building = *Building::of(x);
  LayerOptions options{.out = out,
                       .weight_quantizer = layer.weights,
                       .bias = layer.bias,
                       .label = layer.label.empty() ? building.numbered(stem) : layer.label,
                       .weight_initializer = layer.initializer.value_or(init::KaimingNormal{})};
  if (!preceding_quantizer(building.graph, x.id())) options.input_quantizer = layer.activations;
  if (layer.norm) options.folded_norm = BatchNorm{};
  return options;
}

/// Adds a layer of the low-level functions. `add` takes the graph and the id of x.
template <class Add>
Value layer_of(const Value& x, const Add& add) {
  const auto& building = Building::of(x);
  return Building::value(building, add(building->graph, x.id()));
}

}  // namespace

Value::Value(std::shared_ptr<detail::Building> building, NodeId id)
    : building_(std::move(building)), id_(id) {}

const Graph& Value::graph() const { return building_->graph; }

Shape Value::shape() const {
  const Shape& shape = graph()[id_].type.shape;
  const bool batched = graph().batch() && shape.rank() > 0 && shape[0] == 1;
  return batched ? Shape(shape.extents().subspan(1)) : shape;
}

DType Value::dtype() const { return graph()[id_].type.dtype; }

Network::Network() : building_(std::make_shared<detail::Building>()) {}

Value Network::input(std::string label, const Shape& sample, DType dtype) {
  std::vector<int64_t> extents = {1};
  extents.insert(extents.end(), sample.extents().begin(), sample.extents().end());
  const Input op{.dtype = dtype, .shape = Shape(extents)};
  return {building_, building_->graph.add(op, {}, std::move(label))};
}

Value node(Op op, std::span<const Value> operands, std::string label) {
  require<GraphError>(!operands.empty(), "{}: expected at least one value", name_of(op));
  const auto& building = Building::of(operands[0]);
  std::vector<NodeId> ids;
  for (const Value& each : operands) {
    require<GraphError>(Building::of(each) == building,
                        "{}: the values belong to different networks", name_of(op));
    ids.push_back(each.id());
  }
  return {building, building->graph.add(std::move(op), ids, std::move(label))};
}

Value node(Op op, std::initializer_list<Value> operands, std::string label) {
  return node(std::move(op), std::span(operands.begin(), operands.size()), std::move(label));
}

Value linear(const Value& x, int64_t out, const Layer& layer) {
  return layer_of(x, [&](Graph& graph, NodeId id) {
    return linear(graph, id, options_of(x, out, layer, "fc"));
  });
}

Value linear(const Value& x, int64_t out, const Op& weight_quantizer) {
  return linear(x, out, Layer{.weights = weight_quantizer});
}

Value conv2d(const Value& x, int64_t out, const Shape& kernel, const Layer& layer,
             const Conv2d& op) {
  return layer_of(x, [&](Graph& graph, NodeId id) {
    return conv2d(graph, id, op, kernel, options_of(x, out, layer, "conv"));
  });
}

Value conv1d(const Value& x, int64_t out, int64_t kernel, const Layer& layer,
             const Conv1d& op) {
  return layer_of(x, [&](Graph& graph, NodeId id) {
    return conv1d(graph, id, op, kernel, options_of(x, out, layer, "conv"));
  });
}

Value depthwise_conv2d(const Value& x, const Shape& kernel, const Layer& layer,
                       const Conv2d& op) {
  return layer_of(x, [&](Graph& graph, NodeId id) {
    return depthwise_conv2d(graph, id, op, kernel, options_of(x, 0, layer, "conv"));
  });
}

Value depthwise_conv1d(const Value& x, int64_t kernel, const Layer& layer, const Conv1d& op) {
  return layer_of(x, [&](Graph& graph, NodeId id) {
    return depthwise_conv1d(graph, id, op, kernel, options_of(x, 0, layer, "conv"));
  });
}

Value batch_norm(const Value& x, const BatchNorm& op, const std::string& label) {
  const auto& building = Building::of(x);
  const std::string name = label.empty() ? building->numbered("norm") : label;
  return layer_of(x, [&](Graph& graph, NodeId id) {
    return batch_norm(graph, id, {.op = op, .label = name});
  });
}

namespace {

RecurrentOptions recurrent_options(const Value& x, int64_t hidden, const Layer& layer,
                                   std::string_view stem) {
  const std::string label = layer.label.empty() ? Building::of(x)->numbered(stem) : layer.label;
  require<GraphError>(layer.bias, "'{}': recurrent layers always have a bias", label);
  require<GraphError>(!layer.norm, "'{}': recurrent layers do not support a norm", label);
  return {.hidden = hidden,
          .weight_quantizer = layer.weights,
          .activation_quantizer = layer.activations,
          .label = label,
          .weight_initializer = layer.initializer.value_or(init::XavierUniform{})};
}

/// Returns the size of a given state.
int64_t hidden_of(const Value& h) {
  const Shape shape = h.shape();
  require<GraphError>(shape.rank() == 1, "{}: a state must be [hidden] per sample, got {}",
                      h.graph().describe(h.id()), to_string(shape));
  return shape[0];
}

void check_same_network(const Value& x, const Value& state) {
  require<GraphError>(Building::of(x) == Building::of(state),
                      "{}: the values belong to different networks",
                      x.graph().describe(x.id()));
}

std::vector<Value> values_of(const Value& x, const std::vector<NodeId>& ids) {
  std::vector<Value> values;
  for (const NodeId id : ids) values.push_back(Building::value(Building::of(x), id));
  return values;
}

std::vector<LstmValues> values_of(const Value& x, const std::vector<LstmState>& states) {
  const auto& building = Building::of(x);
  std::vector<LstmValues> values;
  for (const LstmState& each : states) {
    values.push_back({Building::value(building, each.h), Building::value(building, each.c)});
  }
  return values;
}

}  // namespace

std::vector<Value> gru(const Value& x, int64_t hidden, const Layer& layer) {
  const RecurrentOptions options = recurrent_options(x, hidden, layer, "gru");
  return values_of(x, gru(Building::of(x)->graph, x.id(), options));
}

std::vector<Value> gru(const Value& x, const Value& h, const Layer& layer) {
  check_same_network(x, h);
  const RecurrentOptions options = recurrent_options(x, hidden_of(h), layer, "gru");
  return values_of(x, gru(Building::of(x)->graph, x.id(), h.id(), options));
}

std::vector<LstmValues> lstm(const Value& x, int64_t hidden, const Layer& layer) {
  const RecurrentOptions options = recurrent_options(x, hidden, layer, "lstm");
  return values_of(x, lstm(Building::of(x)->graph, x.id(), options));
}

std::vector<LstmValues> lstm(const Value& x, const LstmValues& state, const Layer& layer) {
  check_same_network(x, state.h);
  check_same_network(x, state.c);
  const RecurrentOptions options = recurrent_options(x, hidden_of(state.h), layer, "lstm");
  return values_of(x,
                   lstm(Building::of(x)->graph, x.id(), {state.h.id(), state.c.id()}, options));
}

Value quantized(const Value& x, const Op& quantizer, const std::string& label) {
  const auto& building = Building::of(x);
  if (preceding_quantizer(building->graph, x.id())) return x;
  const std::string usual = label_near(building->graph, x.id());
  const std::string name =
      label.empty() ? unused_label(building->graph, usual, ".quantized") : label;
  return layer_of(
      x, [&](Graph& graph, NodeId id) { return add_quantizer(graph, id, quantizer, name); });
}

namespace {

/// Converts axes of a sample to axes of a batch.
std::vector<int> axes_of_sample(const Value& x, std::vector<int> axes) {
  require<GraphError>(!axes.empty(), "{}: expected at least one axis of the sample",
                      x.graph().describe(x.id()));
  for (int& axis : axes) axis = axis < 0 ? axis : axis + 1;
  return axes;
}

}  // namespace

Value relu(const Value& x) { return node(Relu{}, {x}); }
Value relu6(const Value& x) { return node(Relu6{}, {x}); }
Value tanh(const Value& x) { return node(Tanh{}, {x}); }
Value sigmoid(const Value& x) { return node(Sigmoid{}, {x}); }
Value gelu(const Value& x) { return node(Gelu{}, {x}); }
Value exp(const Value& x) { return node(Exp{}, {x}); }
Value log(const Value& x) { return node(Log{}, {x}); }
Value sqrt(const Value& x) { return node(Sqrt{}, {x}); }
Value abs(const Value& x) { return node(Abs{}, {x}); }
Value square(const Value& x) { return node(Mul{}, {x, x}); }
Value clamp(const Value& x, double low, double high) {
  return node(Clamp{.low = low, .high = high}, {x});
}
Value mean(const Value& x) { return node(Mean{}, {x}); }
Value mean(const Value& x, const std::vector<int>& axes) {
  return node(Mean{.axes = axes_of_sample(x, axes)}, {x});
}
Value sum(const Value& x) { return node(Sum{}, {x}); }
Value sum(const Value& x, const std::vector<int>& axes) {
  return node(Sum{.axes = axes_of_sample(x, axes)}, {x});
}
Value flatten(const Value& x) { return node(Flatten{}, {x}); }

Value reshape(const Value& x, const std::vector<int64_t>& sample) {
  const bool open = std::ranges::find(sample, -1) != sample.end();
  std::vector<int64_t> shape = sample;
  if (open) {  // the batch extent uses the only extent that may be -1
    int64_t known = 1;
    for (const int64_t extent : sample) known *= extent == -1 ? 1 : extent;
    const int64_t elements = x.shape().elements();
    require<GraphError>(known > 0 && elements % known == 0,
                        "{}: {} elements of a sample do not divide into {}",
                        x.graph().describe(x.id()), elements, fmt::join(sample, ", "));
    std::ranges::replace(shape, int64_t{-1}, elements / known);
  }
  shape.insert(shape.begin(), -1);
  return node(Reshape{.shape = std::move(shape)}, {x});
}

Value max_pool(const Value& x, const Shape& kernel) {
  return node(MaxPool{.kernel = kernel, .stride = kernel}, {x});
}
Value avg_pool(const Value& x, const Shape& kernel) {
  return node(AvgPool{.kernel = kernel, .stride = kernel}, {x});
}
Value global_avg_pool(const Value& x) { return node(GlobalAvgPool{}, {x}); }
Value dropout(const Value& x, double rate) { return node(Dropout{.rate = rate}, {x}); }

Value concat(std::initializer_list<Value> parts, int axis) {
  return concat(std::span(parts.begin(), parts.size()), axis);
}

Value concat(std::span<const Value> parts, int axis) {
  return node(
      Concat{.axis = axis < 0 ? axis : axis + 1, .count = static_cast<int>(parts.size())},
      parts);
}

Value operator+(const Value& a, const Value& b) { return node(Add{}, {a, b}); }
Value operator-(const Value& a, const Value& b) { return node(Sub{}, {a, b}); }
Value operator*(const Value& a, const Value& b) { return node(Mul{}, {a, b}); }
Value operator/(const Value& a, const Value& b) { return node(Div{}, {a, b}); }
Value operator-(const Value& x) { return node(Neg{}, {x}); }

Value operator+(const Value& x, double number) { return node(Affine{.offset = number}, {x}); }
Value operator+(double number, const Value& x) { return x + number; }
Value operator-(const Value& x, double number) { return node(Affine{.offset = -number}, {x}); }
Value operator-(double number, const Value& x) {
  return node(Affine{.factor = -1, .offset = number}, {x});
}
Value operator*(const Value& x, double number) { return node(Affine{.factor = number}, {x}); }
Value operator*(double number, const Value& x) { return x * number; }

Value operator/(const Value& x, double number) {
  require<GraphError>(std::isfinite(number) && number != 0,
                      "{}: a divisor must be finite and not 0, got {}",
                      x.graph().describe(x.id()), number);
  return x * (1 / number);
}

Value operator/(double number, const Value& x) {
  const auto& building = Building::of(x);
  const Tensor value = dispatch_compute(x.dtype(), [&]<class T>() {
    const auto element = static_cast<T>(number);
    require<GraphError>(std::isfinite(element), "{}: a number to divide must be finite, got {}",
                        x.graph().describe(x.id()), number);
    return Tensor::of<T>({}, std::span(&element, 1));
  });
  const NodeId constant = building->graph.add(Constant{value}, {});
  return Building::value(building, constant) / x;
}

namespace loss {
namespace {

/// Returns a new input of the type of y, with which y is compared.
Value target_of(const Value& y) {
  const auto& building = Building::of(y);
  const TensorType& type = y.graph()[y.id()].type;
  const NodeId target = building->graph.add(Input{.dtype = type.dtype, .shape = type.shape}, {},
                                            unused_label(building->graph, "target"));
  return Building::value(building, target);
}

/// Adds the last node of a loss.
Value finish(Op op, std::initializer_list<Value> operands) {
  return node(std::move(op), operands,
              unused_label(Building::of(*operands.begin())->graph, "loss"));
}

}  // namespace

Value cross_entropy(const Value& logits) {
  const auto& building = Building::of(logits);
  const Input labels{.dtype = DType::S32, .shape = {1}};
  const NodeId target =
      building->graph.add(labels, {}, unused_label(building->graph, "labels"));
  return finish(SoftmaxCrossEntropy{}, {logits, Building::value(building, target)});
}

Value mean_squared_error(const Value& y) {
  return finish(MeanSquaredError{}, {y, target_of(y)});
}

Value l1(const Value& y) { return finish(Mean{}, {abs(y - target_of(y))}); }

Loss huber(double delta) {
  require<ArgumentError>(std::isfinite(delta) && delta > 0,
                         "huber: delta must be finite and above 0, got {}", delta);
  return [delta](const Value& y) {
    const Value d = y - target_of(y);
    const Value c = clamp(d, -delta, delta);
    return finish(Mean{}, {c * (d - c / 2)});
  };
}

}  // namespace loss

namespace quantize {

FakeQuantize weights(int bits) {
  return {.bits = bits, .axis = 0, .ste = Ste::ClippedIdentity, .scale_mode = PerBatch{}};
}

FakeQuantize activations(int bits) {
  return {.bits = bits,
          .range = CodeRange::Unsigned,
          .scheme = Scheme::Affine,
          .ste = Ste::ClippedIdentity,
          .scale_mode = EMA{.decay = 0.99, .track = Track::Range}};
}

Layer layer(int weight_bits, int activation_bits) {
  return {.weights = weights(weight_bits), .activations = activations(activation_bits)};
}

}  // namespace quantize
}  // namespace qtape
