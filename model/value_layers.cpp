// Layers and quantizers of values.
#include <fmt/format.h>

#include "qtape/core/error.h"
#include "qtape/engine/labels.h"
#include "qtape/engine/quantizers.h"
#include "qtape/integer/rules/quantizer_of.h"
#include "qtape/model/building.h"
#include "qtape/model/recurrent.h"
#include "qtape/model/value.h"

namespace qtape {
namespace {

using detail::Building;
using detail::layer_of;

LayerOptions options_of(const Value& x, int64_t out, const Layer& layer,
                        std::string_view stem) {
  const Building& building = *Building::of(x);
  LayerOptions options{.out = out,
                       .weight_quantizer = layer.weights,
                       .bias = layer.bias,
                       .label = building.label_or(layer.label, stem),
                       .weight_initializer = layer.initializer.value_or(init::KaimingNormal{})};
  if (!preceding_quantizer(building.graph, x.id())) options.input_quantizer = layer.activations;
  if (layer.norm) options.folded_norm = BatchNorm{};
  return options;
}

}  // namespace

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
  const std::string name = building->label_or(label, "norm");
  return layer_of(x, [&](Graph& graph, NodeId id) {
    return batch_norm(graph, id, {.op = op, .label = name});
  });
}

namespace {

RecurrentOptions recurrent_options(const Value& x, int64_t hidden, const Layer& layer,
                                   std::string_view stem) {
  const std::string label = Building::of(x)->label_or(layer.label, stem);
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
