// Layers of classifiers as a recipe wants them quantized.
#pragma once

#include <optional>
#include <string>

#include "qtape/examples/classifier/recipe.h"
#include "qtape/examples/classifier/task.h"
#include "qtape/model/layers.h"

namespace qtape::examples {

/// Adds layers to a graph. Inputs of layers get a quantizer unless they have one already;
/// weights are quantized per output channel.
class Builder {
 public:
  Builder(Graph& graph, const Recipe& recipe) : graph_(graph), recipe_(recipe) {}

  /// x after a quantizer of its `range`; x itself where it is or shows codes, and where
  /// activations are float.
  NodeId quantize(NodeId x, CodeRange range, const std::string& label);

  /// The options of a layer: `out` outputs, with a folded batch norm if `norm`, else with
  /// Xavier's weights, of which LeNet learns more than of Kaiming's.
  LayerOptions layer(int64_t out, const std::string& label, bool norm) const;

  /// A convolution over images [n, h, w, c], padded to the size of the input. x >= 0 unless
  /// `range` says other.
  NodeId conv(NodeId x, int64_t out, int64_t kernel, int64_t stride, const std::string& label,
              CodeRange range = CodeRange::Unsigned);
  /// The same for each channel by itself.
  NodeId depthwise(NodeId x, int64_t kernel, int64_t stride, const std::string& label,
                   CodeRange range = CodeRange::Unsigned);
  /// The sum of two branches, each with a quantizer.
  NodeId residual(NodeId branch, NodeId skip, CodeRange skip_range, const std::string& label);
  /// The mean of each channel, then a layer without an activation.
  NodeId head(NodeId x, int64_t classes, const std::string& label);
  NodeId relu(NodeId x) { return graph_.add(Relu{}, {x}); }

  int64_t channels(NodeId x) const { return graph_[x].type.shape[-1]; }
  Graph& graph() { return graph_; }
  const Recipe& recipe() const { return recipe_; }

 private:
  Graph& graph_;
  const Recipe& recipe_;
};

/// Inputs for `dataset`: x [batch, features] and labels.
Network start_network(const Recipe& recipe, const data::Dataset& dataset);
/// Adds the loss of `logits`.
void finish_network(Network& network, NodeId logits);

}  // namespace qtape::examples
