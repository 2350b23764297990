#include "qtape/examples/classifier/training_settings.h"

#include <algorithm>
#include <map>

#include "qtape/core/error.h"
#include "qtape/engine/constants.h"
#include "qtape/engine/quantizers.h"
#include "qtape/engine/rewrite.h"
#include "qtape/integer/rules/quantizer_of.h"
#include "qtape/integer/rules/rule_table.h"
#include "qtape/integer/training/exact.h"
#include "qtape/model/recipe.h"

namespace qtape::examples {
namespace {

/// Returns the bits by which few bits are judged: float operands do not count as few.
int counted_bits(int64_t bits) { return bits == 0 ? 16 : static_cast<int>(bits); }

/// Bits of quantizers in a copy of a graph.
using BitsOf = std::map<NodeId, int>;

Graph with_bits(const Graph& graph, const BitsOf& bits) {
  Graph result;
  rewrite(graph, result, [&](NodeId id, std::span<const NodeId> operands) {
    Op op = graph[id].op;
    if (const auto found = bits.find(id); found != bits.end()) {
      std::visit(
          [&](auto& each) {
            if constexpr (Quantizer<std::decay_t<decltype(each)>>) each.bits = found->second;
          },
          op);
    }
    return result.add(op, operands, graph[id].label);
  });
  return result;
}

}  // namespace

bool has_few_bits(const TrainingSettings& recipe) {
  constexpr int max_bits = 3;
  return std::min(counted_bits(recipe.weight_bits), counted_bits(recipe.activation_bits)) <=
         max_bits;
}

ScaleOrigin scale_mode_of(const TrainingSettings& recipe) {
  // Learned scales are not powers of two.
  const bool learned = has_few_bits(recipe) && !recipe.power_of_two;
  return recipe.scale_mode.value_or(learned ? ScaleOrigin::LSQ : ScaleOrigin::EMA);
}

double learning_rate_of(const TrainingSettings& recipe) {
  const double further = default_learning_rate(counted_bits(recipe.weight_bits),
                                               counted_bits(recipe.activation_bits));
  return recipe.learning_rate.value_or(recipe.from.empty() ? 3e-3 : further);
}

QuantizationSchedule schedule_of(const TrainingSettings& recipe, int64_t steps) {
  const bool late =
      has_few_bits(recipe) && recipe.from.empty() && scale_mode_of(recipe) == ScaleOrigin::LSQ;
  return {.delay = recipe.quantize_after.value_or(late ? default_float_steps(steps) : 0),
          .freeze = recipe.freeze_after,
          .freeze_norms = recipe.freeze_norms_after.value_or(default_norm_freeze(steps)),
          .warm_up = recipe.warm_up};
}

std::optional<Arithmetic> arithmetic_of(const TrainingSettings& recipe) {
  if (recipe.exact) return exact(recipe.exact);
  if (!recipe.products) return std::nullopt;
  return recipe.products == Products::Codes ? products_of_codes() : Arithmetic{};
}

FitOptions fit_options(const TrainingSettings& recipe, int64_t samples) {
  const int64_t steps = recipe.epochs * (samples / recipe.batch);
  return {.epochs = recipe.epochs,
          .batch = recipe.batch,
          .learning_rate = learning_rate_of(recipe),
          .augmentation = {.shift = recipe.shift,
                           .rotation = recipe.rotation,
                           .noise = recipe.noise},
          .quantization = schedule_of(recipe, steps),
          .arithmetic = arithmetic_of(recipe),
          .gradient_precision = recipe.gradient_precision,
          .shards = recipe.shards,
          .seed = static_cast<uint64_t>(recipe.seed)};
}

namespace {

void require_powers_possible(const TrainingSettings& recipe) {
  require<ArgumentError>(
      !recipe.power_of_two || !has_learned_scales(scale_mode_of(recipe)),
      "power of two requires scales that follow the data; those of {} are learned; try scale "
      "mode EMA",
      to_string_view(scale_mode_of(recipe)));
}

}  // namespace

std::optional<Op> weight_quantizer(const TrainingSettings& recipe) {
  require_powers_possible(recipe);
  if (recipe.weight_bits == 0) return std::nullopt;
  const int bits = static_cast<int>(recipe.weight_bits);
  const CodeRange codes = recipe.weight_codes.value_or(CodeRange::Narrow);
  const FakeQuantize grid{.bits = bits,
                          .axis = 0,
                          .range = codes,
                          .denominator = Denominator::HalfSpan,
                          .power_of_two = recipe.power_of_two,
                          .ste = recipe.ste,
                          .scale_mode = PerBatch{}};
  return with_scales(grid, scale_mode_of(recipe));
}

std::optional<Op> activation_quantizer(const TrainingSettings& recipe, CodeRange range) {
  require_powers_possible(recipe);
  if (recipe.activation_bits == 0) return std::nullopt;
  const int bits = static_cast<int>(recipe.activation_bits);
  const FakeQuantize grid{.bits = bits,
                          .range = range,
                          .power_of_two = recipe.power_of_two,
                          .ste = recipe.ste,
                          .scale_mode = EMA{.decay = 0.99}};
  return with_scales(grid, scale_mode_of(recipe));
}

TrainingSettings pooled(const TrainingSettings& recipe) {
  TrainingSettings result = recipe;
  if (recipe.activation_bits == 0) return result;
  // The source of the scales is the same as for all other quantizers.
  result.scale_mode = scale_mode_of(recipe);
  result.activation_bits =
      recipe.mean_bits.value_or(default_mean_bits(static_cast<int>(recipe.activation_bits)));
  return result;
}

std::optional<int> default_ends_of(const Graph& graph, const TrainingSettings& recipe) {
  if (recipe.weight_bits == 0 && recipe.activation_bits == 0) return std::nullopt;
  return default_ends_bits(graph, counted_bits(recipe.weight_bits),
                           counted_bits(recipe.activation_bits));
}

Graph with_ends(const Graph& graph, const TrainingSettings& recipe) {
  std::optional<int> ends = default_ends_of(graph, recipe);
  if (recipe.ends_bits) ends = static_cast<int>(*recipe.ends_bits);
  if (!ends) return graph;
  std::vector<NodeId> layers;
  const std::vector<bool> constant = constant_nodes(graph);
  for (const NodeId id : ids(graph)) {
    const auto weights = constant_weights(graph, constant, id);
    if (weights && is_quantizer(graph[*weights].op)) layers.push_back(id);
  }
  if (layers.empty()) return graph;
  BitsOf bits;
  for (const NodeId layer : {layers.front(), layers.back()}) {
    bits[graph[layer].operands[1]] = *ends;
    const auto input = preceding_quantizer(graph, graph[layer].operands[0]);
    if (input) bits[*input] = *ends;
  }
  return with_bits(graph, bits);
}

Value quantized(const Value& x, const TrainingSettings& recipe, CodeRange range,
                const std::string& label) {
  const auto quantizer = activation_quantizer(recipe, range);
  return quantizer ? qtape::quantized(x, *quantizer, label) : x;
}

}  // namespace qtape::examples
