// Factors of batch norms by which weights are multiplied before they are quantized.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "qtape/engine/graph.h"
#include "qtape/engine/parameters.h"

namespace qtape {

/// The factors of a weight as FoldedNorm adds them; of a weight without a norm, 1.
struct WeightFactor {
  std::string gamma;
  std::string variance;
  double eps = 0;
  int64_t block = 1;               ///< number of adjacent elements with the same factor
  std::vector<float> values = {};  ///< by channel; empty: 1

  /// Factor of element i of the weight.
  float at(size_t i) const { return values.empty() ? 1.0f : values[channel(i)]; }
  /// Index in values; values must not be empty.
  size_t channel(size_t i) const { return i / static_cast<size_t>(block) % values.size(); }
  /// Sets values from the parameters and running statistics, as FoldFactor computes them.
  void update(const Parameters& parameters);
};

/// The f32 parameter whose codes a quantizer computes.
struct QuantizedWeight {
  NodeId parameter;
  WeightFactor factor;  ///< without values set
};

/// Returns the weight that this quantizer rounds, empty if its operand is neither an f32
/// parameter nor one times the factor of a norm.
std::optional<QuantizedWeight> quantized_weight(const Graph& graph, NodeId quantizer);

}  // namespace qtape
