#include "qtape/model/bit_search.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "qtape/core/error.h"
#include "qtape/core/float_environment.h"
#include "qtape/kernels/quantize/pack.h"
#include "qtape/model/feed.h"
#include "qtape/model/passes/weighted_layers.h"

namespace qtape {
namespace {

constexpr int min_bits = 2;
constexpr int max_bits = 8;

void check_search(const Model& model, const data::Dataset& dataset,
                  const BitSearchOptions& options) {
  check(model.loss().has_value(), "the model has no loss to measure");
  require<ArgumentError>(!options.candidates.empty(), "a search needs at least one candidate");
  require<ArgumentError>(dataset.size() > 0, "a search needs samples, the data set has none");
  require<ArgumentError>(options.samples > 0, "samples must be at least 1, got {}",
                         options.samples);
  require<ArgumentError>(options.recipe.layers.empty(),
                         "a search chooses the bits of layers: expected a recipe without "
                         "layers, got one with {}",
                         options.recipe.layers.size());
  require<ArgumentError>(!options.recipe.ends_bits.has_value(),
                         "a search chooses the bits of the first and the last layer: expected "
                         "a recipe without bits of these, got {}",
                         options.recipe.ends_bits.value_or(0));
}

/// Returns the mean loss over full batches of the first samples.
double loss_of(const Model& model, const data::Dataset& dataset,
               const BitSearchOptions& options) {
  const int64_t samples = std::min(options.samples, dataset.size());
  const int64_t rows = calibration_batch(samples);
  Tape tape(
      model.graph().with_batch(rows), model.parameters(),
      {.outputs = {*model.loss()}, .threads = options.threads, .constant_parameters = true});
  Feed feed(inputs_of(tape), dataset);
  double sum = 0;
  int64_t batches = 0;
  for (int64_t first = 0; first + rows <= samples; first += rows, ++batches) {
    (void)feed.fill_from(first);
    tape.forward(mode::eval);
    sum += tape.scalar(*model.loss());
  }
  check(std::isfinite(sum), "the loss is {}: the data or the parameters are not finite", sum);
  return sum / static_cast<double>(batches);
}

ScaleOrigin scales_of(const BitSearchOptions& options) {
  const int fewest = std::ranges::min(options.candidates);
  return options.recipe.scales.value_or(default_scales(fewest, options.recipe.activation_bits));
}

QuantizationRecipe recipe_of(const BitSearchOptions& options, int most,
                             std::vector<LayerBits> layers) {
  QuantizationRecipe recipe = options.recipe;
  recipe.weight_bits = most;
  recipe.scales = scales_of(options);
  recipe.layers = std::move(layers);
  return recipe;
}

/// A choice of bits for the first layers, with its cost.
struct Choice {
  int64_t bytes = 0;
  double loss = 0;
  std::vector<size_t> chosen = {};
};

/// Keeps those of `choices` that have a smaller loss than all choices of equal or smaller size.
std::vector<Choice> best_of(std::vector<Choice> choices) {
  std::ranges::stable_sort(choices, [](const Choice& a, const Choice& b) {
    return a.bytes != b.bytes ? a.bytes < b.bytes : a.loss < b.loss;
  });
  std::vector<Choice> kept;
  for (Choice& each : choices) {
    if (kept.empty() || each.loss < kept.back().loss) kept.push_back(std::move(each));
  }
  return kept;
}

/// Returns the choice with the least sum of losses within the budget.
Choice choose(const std::vector<LayerSearch>& layers, int64_t budget) {
  std::vector<Choice> choices = {{}};
  for (const LayerSearch& layer : layers) {
    std::vector<Choice> next;
    for (const Choice& before : choices) {
      for (size_t k = 0; k < layer.losses.size(); ++k) {
        Choice each = before;
        each.bytes += layer.bytes[k];
        each.loss += layer.losses[k];
        each.chosen.push_back(k);
        if (each.bytes <= budget) next.push_back(std::move(each));
      }
    }
    choices = best_of(std::move(next));
  }
  return choices.back();
}

}  // namespace

int64_t weight_bytes(int64_t elements, int bits) {
  require<ArgumentError>(bits >= min_bits && bits <= max_bits,
                         "weights of integer programs have {} to {} bits, not {}", min_bits,
                         max_bits, bits);
  const CodeLimits limits = code_limits(bits, CodeRange::Narrow);
  return kernels::packed_bytes(elements, kernels::storage_bits(limits.q_min, limits.q_max));
}

namespace {

/// Returns the layers with the bytes of each candidate. Throws ArgumentError if the smallest
/// exceed the budget.
std::vector<LayerSearch> layers_of(const Graph& graph, const BitSearchOptions& options) {
  std::vector<LayerSearch> layers;
  int64_t smallest = 0;
  for (const WeightedLayer& each : weighted_layers(graph)) {
    const auto known = std::ranges::find(layers, each.label, &LayerSearch::weight);
    if (known != layers.end()) continue;
    LayerSearch layer{.weight = each.label, .elements = graph[each.weight].type.elements()};
    for (const int bits : options.candidates) {
      layer.bytes.push_back(weight_bytes(layer.elements, bits));
    }
    smallest += std::ranges::min(layer.bytes);
    layers.push_back(std::move(layer));
  }
  require<ArgumentError>(smallest <= options.budget,
                         "a budget of {} bytes is too small: the weights take at least {}",
                         options.budget, smallest);
  return layers;
}

/// Gives learned scales values that belong to the codes of the trial.
void learn_scales(Model& trial, const Model& plain, const data::Dataset& dataset,
                  const BitSearchOptions& options) {
  if (scales_of(options) != ScaleOrigin::LSQ) return;
  (void)start_from(trial, plain.parameters(), dataset, options.samples, options.threads);
}

}  // namespace

BitSearch search_bits(const Model& model, const data::Dataset& dataset,
                      const BitSearchOptions& options) {
  const FloatEnvironment floats;
  check_search(model, dataset, options);
  const Model plain = plain_model(model);
  const int most = std::ranges::max(options.candidates);
  const Model full =
      quantized(plain, recipe_of(options, most, {}), dataset, options.samples, options.threads);
  const double min_loss = loss_of(full, dataset, options);
  BitSearch result{.layers = layers_of(plain.graph(), options)};
  const auto trials = static_cast<int64_t>(result.layers.size() * options.candidates.size());
  int64_t done = 0;
  for (LayerSearch& layer : result.layers) {
    for (const int bits : options.candidates) {
      double loss = min_loss;
      if (bits != most) {
        const LayerBits few{layer.weight, bits, options.recipe.activation_bits};
        Model trial(quantized(plain.graph(), recipe_of(options, most, {few})),
                    full.parameters());
        learn_scales(trial, plain, dataset, options);
        loss = loss_of(trial, dataset, options);
      }
      layer.losses.push_back(loss - min_loss);
      if (options.on_trial) options.on_trial(++done, trials);
    }
  }
  const Choice best = choose(result.layers, options.budget);
  std::vector<LayerBits> layers;
  for (size_t i = 0; i < result.layers.size(); ++i) {
    result.layers[i].chosen = best.chosen[i];
    layers.push_back({result.layers[i].weight, options.candidates[best.chosen[i]],
                      options.recipe.activation_bits});
  }
  result.bytes = best.bytes;
  result.recipe = recipe_of(options, most, std::move(layers));
  return result;
}

}  // namespace qtape
