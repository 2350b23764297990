// How a tape's forward computes: as its ops do, or as another room says.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "qtape/engine/graph.h"
#include "qtape/engine/plan.h"

namespace qtape {

struct ExactValue;

/// Takes the place of kernels of a tape's forward.
class ForwardArithmetic {
 public:
  /// Memory and records of a tape, asked for while kernels are bound.
  struct Lookup {
    std::function<std::byte*(NodeId)>
        value;  ///< of a node's value, codes or floats, or of a leaf
    std::function<std::byte*(NodeId)> companion;  ///< see companions()
    std::function<ScaleSource(NodeId)> scales;    ///< of a quantizer's last forward
    std::function<NodeStatus*(NodeId)> status;
    std::function<EncodedOperand(NodeId)> encoded;  ///< a value that is held as codes
    bool backward = false;                          ///< whether gradients flow
  };

  virtual ~ForwardArithmetic() = default;
  /// Memory that is needed beside the nodes' values, of which those of `kept` are readable
  /// after a step.
  virtual std::vector<Companion> companions(std::span<const NodeId> kept) = 0;
  /// Which values are to be held as codes, those of `kept` not among them. `backward`: whether
  /// gradients flow.
  virtual Encoding encoding(std::span<const NodeId> kept, bool backward) {
    (void)kept;
    (void)backward;
    return {};
  }
  /// Whether node `id` reads codes in forward, as its encoding said.
  virtual bool takes_codes(NodeId id) const {
    (void)id;
    return false;
  }
  /// Before any node is given.
  virtual void bind(const Lookup& lookup) = 0;
  /// Where the quantizer `id` writes its codes, or null.
  virtual std::byte* codes(NodeId id) const = 0;
  /// What node `id` runs in forward, `kernel` being its op's own. Nodes are given in order.
  virtual Kernel around(NodeId id, Kernel kernel, const Binding& binding) = 0;
  /// Before the kernels of a step.
  virtual void begin(const Step& step) = 0;
  /// After them: whether they must run once more, `begin` having been called.
  virtual bool repeats() const = 0;
  /// The integers of the node, null where it has none.
  virtual const ExactValue* find(NodeId id) const = 0;
};

/// How a tape's forward computes between quantized operands: see integer/exact.h.
struct Arithmetic {
  /// Makes what takes the place of kernels; empty: in floats. `encodes`: values may be held as
  /// codes, since all quantizers apply in the steps that it computes. May give null: in floats.
  std::function<std::unique_ptr<ForwardArithmetic>(const Graph& graph, int threads,
                                                   bool encodes)>
      make = {};
};

}  // namespace qtape
