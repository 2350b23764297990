// How a tape's forward computes: as its ops do, or as another room says.
#pragma once

#include <functional>
#include <memory>

#include "qtape/engine/graph.h"

namespace qtape {

struct ExactValue;

/// Takes the place of kernels of a tape's forward.
class ForwardArithmetic {
 public:
  /// What is asked while kernels are bound.
  struct Lookup {
    std::function<std::byte*(NodeId)> value;    ///< memory of a leaf
    std::function<ScaleSource(NodeId)> scales;  ///< of a quantizer's last forward
    std::function<const NodeStatus*(NodeId)> status;
  };

  virtual ~ForwardArithmetic() = default;
  /// What node `id` runs in forward, `kernel` being its op's own. Nodes are given in order.
  virtual Kernel around(NodeId id, Kernel kernel, const Binding& binding,
                        const Lookup& lookup) = 0;
  /// The integers of the node, null where it has none.
  virtual const ExactValue* find(NodeId id) const = 0;
};

/// How a tape's forward computes between quantized operands: see integer/exact_forward.h.
struct Arithmetic {
  /// Makes what takes the place of kernels; empty: in floats.
  std::function<std::unique_ptr<ForwardArithmetic>(const Graph& graph, int threads)> bind = {};
};

}  // namespace qtape
