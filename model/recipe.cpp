#include "qtape/model/recipe.h"

#include <algorithm>
#include <set>

#include "qtape/core/described_settings.h"
#include "qtape/core/error.h"
#include "qtape/core/float_environment.h"
#include "qtape/core/nearest.h"
#include "qtape/core/pattern.h"
#include "qtape/core/printable.h"
#include "qtape/engine/labels.h"
#include "qtape/engine/quantizers.h"
#include "qtape/engine/rewrite.h"
#include "qtape/integer/rules/signs.h"
#include "qtape/model/feed.h"
#include "qtape/model/norms.h"
#include "qtape/model/passes/cell_states.h"
#include "qtape/model/passes/float_parts.h"
#include "qtape/model/passes/insert_quantizers.h"
#include "qtape/model/passes/last_softmax.h"
#include "qtape/model/passes/rewrite_layers.h"
#include "qtape/model/passes/training_norms.h"
#include "qtape/model/passes/weighted_layers.h"
#include "qtape/model/targets.h"
#include "qtape/ops/op_queries.h"

namespace qtape {
namespace {

constexpr int max_bits_learned = 3;
constexpr int max_activation_bits_learned = 4;

Op weight_quantizer(const QuantizationRecipe& recipe, int bits) {
  const CodeRange codes = recipe.weight_codes.value_or(CodeRange::Narrow);
  return with_scales(quantize::weights(bits)
                         .with(&FakeQuantize::range, codes)
                         .with(&FakeQuantize::denominator, Denominator::HalfSpan),
                     *recipe.scales);
}

/// Returns the quantizer of activations, none of which are negative if `positive`.
Op activation_quantizer(const QuantizationRecipe& recipe, int bits, bool positive) {
  FakeQuantize quantizer = quantize::activations(bits);
  quantizer.scheme = positive ? Scheme::Symmetric : Scheme::Affine;
  if (recipe.signed_activations) quantizer = with_signed_codes(quantizer);
  return with_scales(quantizer, *recipe.scales);
}

LayerBits bits_of(const QuantizationRecipe& recipe, const std::string& weight, bool end) {
  for (const LayerBits& each : recipe.layers) {
    if (matches(each.pattern, weight)) return each;
  }
  if (end && recipe.ends_bits) return {weight, *recipe.ends_bits, *recipe.ends_bits};
  return {weight, recipe.weight_bits, recipe.activation_bits};
}

void check_recipe(const QuantizationRecipe& recipe, const std::vector<std::string>& weights) {
  require<ArgumentError>(recipe.scales != ScaleOrigin::PerBatch,
                         "activations with scales from each batch have no integers: expected "
                         "scales EMA, Delayed, LSQ or PACT, got PerBatch");
  settings::require_limits(recipe);
  for (size_t k = 0; k < recipe.layers.size(); ++k) {
    const LayerBits& each = recipe.layers[k];
    naming<ArgumentError>(fmt::format("layers '{}'", printable(each.pattern)), [&] {
      settings::require_limits(QuantizationRecipe{.weight_bits = each.weight_bits,
                                                  .activation_bits = each.activation_bits});
    });
    const PatternUse use = pattern_use<LayerBits>(recipe.layers, k, weights);
    require<ArgumentError>(use != PatternUse::None,
                           "no layer has weights '{}'; the nearest are '{}'",
                           printable(each.pattern), printable(nearest(each.pattern, weights)));
    require<ArgumentError>(use == PatternUse::Used,
                           "layers '{}': matches only weights of preceding entries",
                           printable(each.pattern));
  }
}

/// Copies the nodes of a graph, with some replaced.
class Rebuild {
 public:
  explicit Rebuild(const Graph& from) : from_(from) {}

  /// Returns the unquantized value of a quantizer, and `id` itself for all other nodes.
  NodeId shown(NodeId id) const {
    const Op& op = from_[id].op;
    const bool skipped = is_quantizer(op) || std::holds_alternative<FakeQuantizeBias>(op);
    return skipped ? shown(from_[id].operands[0]) : id;
  }

  Graph run() {
    std::vector<bool> needed(static_cast<size_t>(from_.size()), false);
    for (NodeId id : from_.outputs()) needed[at(shown(id))] = true;
    for (auto i = static_cast<int32_t>(from_.size()) - 1; i >= 0; --i) {
      if (std::holds_alternative<Input>(from_[NodeId{i}].op)) needed[at(NodeId{i})] = true;
      if (!needed[at(NodeId{i})]) continue;
      for (NodeId id : from_[NodeId{i}].operands) needed[at(shown(id))] = true;
    }
    Graph result;
    rewrite(from_, result, [&](NodeId id, std::span<const NodeId> operands) {
      if (shown(id) != id) return operands[0];
      return needed[at(id)] ? result.add(from_[id].op, operands, from_[id].label) : NodeId{};
    });
    return result;
  }

 private:
  const Graph& from_;
};

NodeId add_input_like(Graph& graph, const TensorType& type, const std::string& label) {
  return graph.add(Input{.dtype = type.dtype, .shape = type.shape}, {},
                   unused_label(graph, label));
}

/// Returns answers as rows [n, classes]. A single number per sample is the logit of the class
/// 1; that of the class 0 is 0.
NodeId add_logits(Graph& graph, NodeId answer, int64_t classes) {
  if (graph[answer].type.shape.rank() != 2) {
    answer = graph.add(Reshape{.shape = {-1, classes}}, {answer});
  }
  if (classes > 1) return answer;
  return graph.add(Pad{.begin = {0, 1}, .end = {0, 0}}, {answer});
}

/// Adds the cross-entropy of `answer` relative to the classes of `column`. If `answer` is a
/// Softmax, its operand becomes the answer; of a probability the loss compares the logit. If
/// `named`, the input is named like its column.
NodeId add_cross_entropy(Graph& graph, NodeId& answer, const data::Column& column, bool named) {
  answer = before_softmax(graph, answer);
  const Shape shape = graph[answer].type.shape;  // a copy: added nodes move the others
  std::vector<int64_t> extents{shape.rank() > 0 ? shape[0] : 1};
  const auto places = column.sample.shape.extents();
  extents.insert(extents.end(), places.begin(), places.end());
  NodeId labels =
      add_input_like(graph, {DType::S32, Shape(extents)}, named ? column.name : "labels");
  if (!places.empty()) labels = graph.add(Reshape{.shape = {-1}}, {labels});
  const NodeId compared = before_sigmoid(graph, answer);
  NodeId logits = compared;
  if (holds_classes(column, graph[answer].type)) {
    logits = add_logits(graph, compared,
                        places.empty() ? shape.without_first().elements() : shape[-1]);
  }
  return graph.add(SoftmaxCrossEntropy{}, {logits, labels}, unused_label(graph, "loss"));
}

/// Adds the mean squared error of `answer` relative to its target or, without one, to the last
/// input of the same type. If `named`, the target is named like its column.
NodeId add_squared_error(Graph& graph, NodeId answer, const data::Column* column, bool named) {
  const TensorType type = graph[answer].type;
  NodeId target;
  for (int32_t i = 0; i < graph.size() && column == nullptr; ++i) {
    const bool input = std::holds_alternative<Input>(graph[NodeId{i}].op);
    if (input && graph[NodeId{i}].type == type) target = NodeId{i};
  }
  if (target.index < 0) {
    target = add_input_like(graph, type, named ? column->name : "target");
  }
  return graph.add(MeanSquaredError{}, {answer, target}, unused_label(graph, "loss"));
}

}  // namespace

std::vector<std::string> layer_weights(const Graph& graph) {
  std::vector<std::string> labels;
  for (const WeightedLayer& each : weighted_layers(graph)) labels.push_back(each.label);
  return labels;
}

namespace {

/// Returns the operands of all products with the weight `label`.
std::vector<NodeId> operands_of(const Graph& graph, const std::vector<WeightedLayer>& layers,
                                const std::string& label) {
  std::vector<NodeId> found;
  for (const WeightedLayer& each : layers) {
    if (each.label == label) found.push_back(graph[each.product].operands[0]);
  }
  return found;
}

}  // namespace

ScaleOrigin default_scales(int weight_bits, int activation_bits) {
  const bool few =
      weight_bits <= max_bits_learned || activation_bits <= max_activation_bits_learned;
  return few ? ScaleOrigin::LSQ : ScaleOrigin::EMA;
}

double default_learning_rate(int weight_bits, int activation_bits) {
  return std::min(weight_bits, activation_bits) <= 4 ? 3e-3 : 1e-3;
}

Op with_scales(const FakeQuantize& quantizer, ScaleOrigin origin) {
  const bool per_batch = std::holds_alternative<PerBatch>(quantizer.scale_mode);
  const bool positive =
      quantizer.range == CodeRange::Unsigned && quantizer.scheme == Scheme::Symmetric;
  if (origin == ScaleOrigin::LSQ) {
    return FakeQuantizeLSQ{.bits = quantizer.bits,
                           .axis = quantizer.axis,
                           .range = quantizer.range,
                           .scheme = quantizer.scheme};
  }
  if (origin == ScaleOrigin::PACT && positive && !per_batch) {
    return FakeQuantizePACT{.bits = quantizer.bits};
  }
  if (origin == ScaleOrigin::PerBatch) {
    return quantizer.with(&FakeQuantize::scale_mode, PerBatch{});
  }
  FakeQuantize result = quantizer;
  if (auto* average = std::get_if<EMA>(&result.scale_mode)) {
    average->delayed = origin == ScaleOrigin::Delayed;
  }
  return result;
}

std::optional<int> default_ends_bits(const Graph& graph, int weight_bits, int activation_bits) {
  const bool few = std::min(weight_bits, activation_bits) <= max_bits_learned;
  return few && has_norms(graph) ? std::optional(8) : std::nullopt;
}

std::string ends_note(std::optional<int> usual, std::optional<int> given) {
  if (!usual) return {};
  if (!given) {
    return fmt::format("first and last layer: {} bits because there are batch norms\n", *usual);
  }
  if (*given >= *usual) return {};
  return fmt::format(
      "warning: with batch norms and {} bits in the first and the last layer, networks rarely "
      "learn; try --ends-bits {}\n",
      *given, *usual);
}

QuantizationRecipe with_default_ends(QuantizationRecipe recipe, const Graph& graph) {
  if (!recipe.ends_bits) {
    recipe.ends_bits = default_ends_bits(graph, recipe.weight_bits, recipe.activation_bits);
  }
  return recipe;
}

int default_mean_bits(int activation_bits) {
  constexpr int max_bits_raised = 4;
  return activation_bits <= max_bits_raised ? 8 : activation_bits;
}

int64_t default_float_steps(int64_t steps) { return steps / 3; }

int64_t default_norm_freeze(int64_t steps) { return steps - steps / 3; }

Graph quantized(const Graph& graph, const QuantizationRecipe& asked) {
  check(quantizers(graph).empty(), "the graph has quantizers: without_quantizers removes them");
  const std::vector<std::string> weights = layer_weights(graph);
  check(!weights.empty(), "the graph has no products with weights");
  check_recipe(asked, weights);
  if (!asked.float_parts) {
    require_no_float_parts(float_parts(graph), "QuantizationRecipe::float_parts allows them");
  }
  QuantizationRecipe recipe = with_default_ends(asked, graph);
  const std::vector<WeightedLayer> layers = weighted_layers(graph);
  if (!recipe.scales) {
    recipe.scales = default_scales(recipe.weight_bits, recipe.activation_bits);
  }
  Graph result = graph;
  Signs signs(graph);
  std::set<std::string> done;
  for (size_t i = 0; i < weights.size(); ++i) {
    // One quantizer serves the operands of all products with this weight.
    if (!done.insert(weights[i]).second) continue;
    const std::vector<NodeId> operands = operands_of(graph, layers, weights[i]);
    const bool end = i == 0 || weights[i] == weights.back();
    LayerBits bits = bits_of(recipe, weights[i], end);
    if (std::ranges::any_of(operands, [&](NodeId x) { return is_mean(graph, x); })) {
      bits.activation_bits = recipe.mean_bits.value_or(default_mean_bits(bits.activation_bits));
    }
    const bool positive =
        std::ranges::all_of(operands, [&](NodeId x) { return signs.never_negative(x); });
    result = insert_quantizers(
        result, {.weight = weight_quantizer(recipe, bits.weight_bits),
                 .input = activation_quantizer(recipe, bits.activation_bits, positive),
                 .pattern = weights[i]});
  }
  const int mean_bits = recipe.mean_bits.value_or(default_mean_bits(recipe.activation_bits));
  const int other_bits = recipe.other_bits.value_or(recipe.activation_bits);
  const Op other = activation_quantizer(recipe, other_bits, false);
  if (const auto bits = recipe.cell_bits) {
    result = quantize_cell_states(result, activation_quantizer(recipe, *bits, false), other);
  }
  return complete_quantizers(result, other, activation_quantizer(recipe, mean_bits, false));
}

Model quantized(const Model& model, const QuantizationRecipe& recipe,
                const data::Dataset& dataset, int64_t samples, int threads) {
  const FloatEnvironment floats;
  const Graph bare = without_quantizers(model.graph());
  TrainingNorms norms = with_training_norms(bare, model.parameters());
  const Model plain =
      norms.model ? plain_model(Model(*std::move(norms.model))) : plain_model(model);
  // The norms of the model are folded in the plain one.
  Model result(quantized(plain.graph(), with_default_ends(recipe, model.graph())));
  (void)start_from(result, plain.parameters(), dataset, samples, threads);
  return result;
}

Graph without_quantizers(const Graph& graph) { return Rebuild(graph).run(); }

Model plain_model(const Model& model) {
  // Scales of removed quantizers must not be reused for new ones with the same labels.
  Model plain(without_quantizers(model.graph()), model.parameters());
  RewrittenLayers layers = rewrite_layers(plain.graph(), plain.parameters());
  require_no_float_parts(layers.refused, no_floats_beside);
  return layers.model ? Model(std::move(*layers.model)) : std::move(plain);
}

Model with_loss(Model model, const data::Dataset& dataset) {
  if (model.loss()) return model;
  Graph graph = model.graph();
  std::vector<NodeId> outputs = model.outputs();
  const size_t given = target_columns(dataset).size();
  require<GraphError>(given == outputs.size() || (outputs.size() == 1 && given == 0),
                      "the model has {} answers, but the data have {} targets: give one target "
                      "for each answer, or build the loss in C++",
                      outputs.size(), given);
  const auto targets = targets_of(dataset, names_of_answers(graph));
  std::optional<NodeId> loss;
  for (size_t i = 0; i < outputs.size(); ++i) {
    require<GraphError>(indexed_classes(graph, outputs[i]) == 0,
                        "{}: an ArgMax has no gradient: end the model before it (qtape import "
                        "--end)",
                        graph.describe(outputs[i]));
    const data::Column* target =
        targets[i].empty() ? nullptr : &dataset.columns()[targets[i][0]];
    const bool named = outputs.size() > 1;
    const bool classes = target != nullptr && (target->classes > 0 ||
                                               holds_classes(*target, graph[outputs[i]].type));
    const Shape sample = graph[outputs[i]].type.shape.without_first();
    require<GraphError>(classes || target == nullptr || fits(*target, {.sample = sample}),
                        "{}: its target '{}' is {} per sample, expected {}",
                        graph.describe(outputs[i]), target == nullptr ? "" : target->name,
                        target == nullptr ? "" : to_string(target->sample), to_string(sample));
    const NodeId own = classes ? add_cross_entropy(graph, outputs[i], *target, named)
                               : add_squared_error(graph, outputs[i], target, named);
    loss = loss ? graph.add(Add{}, {*loss, own}, unused_label(graph, "loss")) : own;
  }
  outputs.push_back(*loss);
  graph.set_outputs(outputs, {*loss});
  return {std::move(graph), model.parameters()};
}

}  // namespace qtape
