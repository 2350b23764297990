// The layers of a graph whose weights can be quantized.
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
  /// Label of the parameter that the weight is or is computed from: the one with as many
  /// elements. Without any, what `label_near` says of the weight.
  std::string label;

  /// What labels of the layer's quantizers begin with: `fc1` for `fc1.weight`.
  std::string stem() const;
};

/// Those whose weights no quantizer has yet, in the order of the graph.
std::vector<WeightedLayer> weighted_layers(const Graph& graph);

}  // namespace qtape
