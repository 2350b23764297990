// Nodes of a layer with a batch norm that is folded while it trains.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "qtape/engine/graph.h"

namespace qtape {

/// The leaves of a batch norm.
struct NormLeaves {
  NodeId gamma;
  NodeId beta;
  NodeId mean;
  NodeId variance;
};

/// A batch norm that is folded into the layer before it.
class FoldedNorm {
 public:
  FoldedNorm(Graph& graph, const BatchNorm& op, const NormLeaves& leaves)
      : graph_(graph), op_(op), leaves_(leaves) {
    factor_ = graph.add(FoldFactor{.eps = op.eps}, {leaves_.gamma, leaves_.variance});
  }

  /// Returns the scaled weights to be quantized; `axis` is the output axis.
  NodeId weight(NodeId w, int axis) {
    const Shape& shape = graph_[w].type.shape;
    std::vector<int64_t> extents(static_cast<size_t>(shape.rank()), 1);
    extents[static_cast<size_t>(axis)] = shape[axis];
    const NodeId r = graph_.add(Reshape{.shape = extents}, {factor_});
    return graph_.add(Mul{}, {w, r});
  }
  /// Returns the bias to be rounded and added to the product.
  NodeId bias(const std::string& label = {}) {
    return graph_.add(FoldBias{}, {leaves_.beta, leaves_.mean, factor_}, label);
  }
  /// Returns the result of the layer, where v is the product plus `bias`.
  NodeId correct(NodeId v, NodeId bias, const std::string& label) {
    const BatchNormCorrection op{.momentum = op_.momentum, .eps = op_.eps};
    return graph_.add(
        op, {v, leaves_.gamma, leaves_.beta, factor_, bias, leaves_.mean, leaves_.variance},
        label);
  }

 private:
  Graph& graph_;
  BatchNorm op_;
  NormLeaves leaves_;
  NodeId factor_;
};

}  // namespace qtape
