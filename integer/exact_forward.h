// Exact forward: between quantized operands the forward pass computes in integers, with the
// requantization of a requantization, so that training sees what deployment computes.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "qtape/core/aligned.h"
#include "qtape/integer/analysis.h"
#include "qtape/integer/exact.h"
#include "qtape/kernels/quantize/requantize.h"

namespace qtape {

using namespace kernels;

/// The integers of an operand. A Dropout on the way from their source takes them away while it
/// drops.
struct ExactOperand {
  const ExactValue* value = nullptr;
  std::vector<const NodeStatus*> dropouts = {};

  bool is_exact() const;
};

/// Puts integer arithmetic around the kernels of a tape's forward.
class ExactForward : public ForwardArithmetic {
 public:
  ExactForward(const Graph& graph, Requantization requantization, int threads);

  /// What node `id` runs in forward, `kernel` being its op's own. Nodes are to be given in
  /// order; those without integers keep their kernel.
  Kernel around(NodeId id, Kernel kernel, const Binding& binding,
                const Lookup& lookup) override;
  /// The integers of the node, null where it has none.
  const ExactValue* find(NodeId id) const override;

 private:
  ExactValue& make(NodeId id);
  /// What `id`, whose form is Codes, Accumulators, Blend or Weight, has of its source.
  ExactOperand operand(NodeId id, const Lookup& lookup) const;
  Kernel codes_from_floats(NodeId id, Kernel kernel, const Binding& binding,
                           const Lookup& lookup);
  Kernel quantizer(NodeId id, Kernel kernel, const Binding& binding, const Lookup& lookup);
  Kernel linear(NodeId id, const MatMul& op, Kernel kernel, const Binding& binding,
                const Lookup& lookup);
  Kernel bias(NodeId id, Kernel kernel, const Binding& binding, const Lookup& lookup);
  Kernel total(NodeId id, std::span<const int> axes, bool mean, Kernel kernel,
               const Binding& binding, const Lookup& lookup);

  Graph graph_;
  IntegerAnalysis analysis_;
  Requantization requantization_;
  int threads_;
  std::vector<std::unique_ptr<ExactValue>> values_;  // by node; of sources only
};

}  // namespace qtape
