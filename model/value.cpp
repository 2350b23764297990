#include "qtape/model/value.h"

#include <fmt/format.h>

#include <algorithm>

#include "qtape/engine/labels.h"
#include "qtape/engine/quantizers.h"
#include "qtape/integer/code_flow.h"

namespace qtape {
namespace detail {

/// A graph that grows, shared by its values.
struct Building {
  Graph graph;

  /// `stem` with the first number from 1 on that makes it and what layers add to it new.
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
    return graph.find(label) || graph.find(label + ".weight") || graph.find(label + ".gamma");
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
                       .weight_initializer = layer.initializer};
  if (!quantizer_behind(building.graph, x.id())) options.input_quantizer = layer.activations;
  if (layer.norm) options.folded_norm = BatchNorm{};
  return options;
}

/// A layer of the low-level functions. `add` takes the graph and the id of x.
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
    require<GraphError>(Building::of(each) == building, "{}: values of different networks",
                        name_of(op));
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

Value quantized(const Value& x, const Op& quantizer, const std::string& label) {
  const auto& building = Building::of(x);
  if (quantizer_behind(building->graph, x.id())) return x;
  const std::string usual = label_near(building->graph, x.id());
  const std::string name =
      label.empty() ? unused_label(building->graph, usual, ".quantized") : label;
  return layer_of(
      x, [&](Graph& graph, NodeId id) { return add_quantizer(graph, id, quantizer, name); });
}

Value relu(const Value& x) { return node(Relu{}, {x}); }
Value relu6(const Value& x) { return node(Relu6{}, {x}); }
Value tanh(const Value& x) { return node(Tanh{}, {x}); }
Value sigmoid(const Value& x) { return node(Sigmoid{}, {x}); }
Value gelu(const Value& x) { return node(Gelu{}, {x}); }
Value flatten(const Value& x) { return node(Flatten{}, {x}); }

Value reshape(const Value& x, const std::vector<int64_t>& sample) {
  const bool open = std::ranges::find(sample, -1) != sample.end();
  std::vector<int64_t> shape = sample;
  if (open) {  // the batch takes the only extent that may be left open
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
  return node(Concat{.axis = axis < 0 ? axis : axis + 1}, parts);
}

Value operator+(const Value& a, const Value& b) { return node(Add{}, {a, b}); }
Value operator-(const Value& a, const Value& b) { return node(Sub{}, {a, b}); }
Value operator*(const Value& a, const Value& b) { return node(Mul{}, {a, b}); }

namespace loss {

Value cross_entropy(const Value& logits) {
  const auto& building = Building::of(logits);
  const Input labels{.dtype = DType::S32, .shape = {1}};
  const NodeId target =
      building->graph.add(labels, {}, unused_label(building->graph, "labels"));
  return node(SoftmaxCrossEntropy{}, {logits, Building::value(building, target)},
              unused_label(building->graph, "loss"));
}

Value mean_squared_error(const Value& y) {
  const auto& building = Building::of(y);
  const TensorType& type = y.graph()[y.id()].type;
  const NodeId target = building->graph.add(Input{.dtype = type.dtype, .shape = type.shape}, {},
                                            unused_label(building->graph, "target"));
  return node(MeanSquaredError{}, {y, Building::value(building, target)},
              unused_label(building->graph, "loss"));
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
