// Bit search: chooses the bits of each layer such that the weights fit a budget at minimal
// loss.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "qtape/model/recipe.h"

namespace qtape {

/// Size limit and candidates of a bit search.
struct BitSearchOptions {
  int64_t budget = 0;  ///< maximum bytes of all weights, as packed in integer programs
  /// Bits to choose from; programs store 2, 4 or 8 bits per weight.
  std::vector<int> candidates = {2, 4, 8};
  /// Other settings of the quantizers, also those of the found recipe. `layers` and `ends_bits`
  /// must be empty; `weight_bits` has no effect. If `scales` is empty: `default_scales` of the
  /// smallest candidate.
  QuantizationRecipe recipe = {};
  int64_t samples = default_calibration_samples;  ///< number of samples on which losses are
                                                  ///< measured, at least 1
  int threads = default_threads();
  std::function<void(int64_t done, int64_t all)> on_trial = {};  ///< called after every trial
};

/// One layer: the cost of each candidate, and the choice.
struct LayerSearch {
  std::string weight;    ///< label of the weight
  int64_t elements = 0;  ///< number of elements of the weight
  /// By candidate: the loss with only this layer at that number of bits, minus the loss with
  /// all layers at the largest candidate.
  std::vector<double> losses = {};
  std::vector<int64_t> bytes = {};  ///< by candidate
  size_t chosen = 0;                ///< index of the chosen candidate, from 0
};

/// Result of a bit search.
struct BitSearch {
  std::vector<LayerSearch> layers;  ///< in graph order
  int64_t bytes = 0;                ///< of all weights, at most the budget
  QuantizationRecipe recipe;        ///< with the chosen bits by layer
};

/// Returns the bytes of `elements` weights with this number of bits in an integer program.
/// Throws ArgumentError for bits outside 2 to 8.
int64_t weight_bytes(int64_t elements, int bits);

/// Measures each layer separately on the first samples of `dataset`, then computes exactly the
/// combination with the smallest sum of losses within the budget. Dong et al., arXiv
/// 1905.03696, with measured losses instead of curvatures. Throws GraphError for a model
/// without a loss. Throws ArgumentError if there are no samples, for layers in the recipe, for
/// candidates out of range, and for a budget below the minimum, which the message states.
BitSearch search_bits(const Model& model, const data::Dataset& dataset,
                      const BitSearchOptions& options);

}  // namespace qtape
