// Replacement of the kernels of a tape's forward, for arithmetic other than that of the ops.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "qtape/engine/graph.h"
#include "qtape/engine/plan.h"

namespace qtape {

struct ExactValue;

/// Access to the memory and records of a tape while kernels are bound.
struct ForwardLookup {
  std::function<std::byte*(NodeId)> value;      ///< value (codes or floats) of a node
  std::function<std::byte*(NodeId)> companion;  ///< see companions()
  std::function<ScaleSource(NodeId)> scales;    ///< scales of the last forward of a quantizer
  std::function<NodeStatus*(NodeId)> status;
  std::function<EncodedOperand(NodeId)> encoded;  ///< a value held as codes
  bool backward = false;                          ///< the tape has a backward
};

/// Replaces kernels of a tape's forward.
class ForwardArithmetic {
 public:
  using Lookup = ForwardLookup;

  virtual ~ForwardArithmetic() = default;
  /// Returns the memory required in addition to the values of nodes. The values of `kept` are
  /// readable after a step.
  virtual std::vector<Companion> companions(std::span<const NodeId> kept) {
    (void)kept;
    return {};
  }
  /// Returns the values to be held as codes, which must not include those of `kept`.
  /// `backward`: the tape has a backward.
  virtual Encoding encoding(std::span<const NodeId> kept, bool backward) {
    (void)kept;
    (void)backward;
    return {};
  }
  /// True if node `id` reads codes in forward according to its encoding.
  virtual bool takes_codes(NodeId id) const {
    (void)id;
    return false;
  }
  /// Called before the first call of `around`.
  virtual void bind(const Lookup& lookup) = 0;
  /// Buffer for the codes of the quantizer `id`, or null.
  virtual std::byte* codes(NodeId id) const {
    (void)id;
    return nullptr;
  }
  /// Returns the kernel that node `id` runs in forward; `kernel` is that of its op. Called for
  /// nodes in order.
  virtual Kernel around(NodeId id, Kernel kernel, const Binding& binding) = 0;
  /// Called before the kernels of a step.
  virtual void begin(const Step& step) { (void)step; }
  /// Called after the kernels of a step. If true, they must run once more, after another
  /// `begin`.
  virtual bool repeats() const { return false; }
  /// Integers of the node, or null if it has none.
  virtual const ExactValue* find(NodeId id) const {
    (void)id;
    return nullptr;
  }
};

}  // namespace qtape
