// Finds the layers of a graph whose weights can be quantized.
#pragma once

#include <string>
#include <vector>

#include "qtape/engine/graph.h"

namespace qtape {

/// A product with weights that depend on no input.
struct WeightedLayer {
  NodeId product;
  NodeId
      weight;  ///< operand of the product: a parameter, or computed from parameters and states
  /// Label of the parameter from which the weight is computed: the first one with the same
  /// number of elements, otherwise the largest. Without any parameter, the result of
  /// `label_near` for the weight.
  std::string label;

  /// Returns the prefix of the labels of the layer's quantizers: `fc1` for `fc1.weight`.
  std::string stem() const;
};

/// Returns the layers whose weights are not quantized yet, in graph order.
std::vector<WeightedLayer> weighted_layers(const Graph& graph);

}  // namespace qtape
