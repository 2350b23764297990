// Bits by layer: as few as a size allows, where they cost least.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "qtape/model/recipe.h"

namespace qtape {

/// How much memory there is, and what is tried.
struct BitSearchOptions {
  int64_t budget = 0;  ///< most bytes of all weights, as integer programs pack them
  /// Bits to choose from; programs store 2, 4 or 8 bits a weight.
  std::vector<int> candidates = {2, 4, 8};
  int activation_bits = 8;  ///< 2 to 16
  /// Without it, `usual_scales` of the fewest of these bits.
  std::optional<RecipeScales> scales = std::nullopt;
  std::optional<CodeRange> weight_codes = std::nullopt;  ///< see QuantizationRecipe
  int64_t samples = usual_calibration_samples;  ///< that losses are measured on, at least 1
  bool float_parts = false;                     ///< as of QuantizationRecipe
  int threads = default_threads();
  std::function<void(int64_t done, int64_t all)> on_trial = {};  ///< called after every trial
};

/// One layer: what each candidate costs, and which was chosen.
struct LayerSearch {
  std::string weight;    ///< label of its weight
  int64_t elements = 0;  ///< of the weight
  /// By candidate: the loss with this layer alone at so many bits, less that with all layers at
  /// the most bits.
  std::vector<double> losses = {};
  std::vector<int64_t> bytes = {};  ///< by candidate
  size_t chosen = 0;                ///< which candidate, from 0
};

/// The bits that were found, and what they take.
struct BitSearch {
  std::vector<LayerSearch> layers;  ///< in the order of the graph
  int64_t bytes = 0;                ///< of all weights, at most the budget
  QuantizationRecipe recipe;        ///< with the chosen bits by layer
};

/// Bytes of `elements` weights of so many bits in an integer program. Throws ArgumentError for
/// bits outside 2 to 8.
int64_t weight_bytes(int64_t elements, int bits);

/// Measures each layer by itself on the first samples of `dataset`, then takes the bits whose
/// losses have the least sum within the budget, exactly. Dong et al., arXiv 1905.03696, with
/// measured losses in the place of curvatures. Throws GraphError for a model without a loss,
/// ArgumentError for no samples, candidates out of range and a budget below what the fewest
/// bits need, which it tells.
BitSearch search_bits(const Model& model, const data::Dataset& dataset,
                      const BitSearchOptions& options);

}  // namespace qtape
