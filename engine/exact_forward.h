// Exact forward: between quantized operands the forward pass computes in integers, with the
// requantization of a requantization, so that training sees what deployment computes.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "qtape/engine/lowering.h"
#include "qtape/ops/core/aligned.h"
#include "qtape/ops/core/requantize.h"

namespace qtape {

/// How a tape's forward computes between quantized operands.
struct Arithmetic {
  /// Empty: in floats, as everywhere else.
  std::optional<Requantization> requantization = std::nullopt;
  bool operator==(const Arithmetic&) const = default;
};
/// On codes, requantized as `requantization` does. Every node still has its float value, (q -
/// zp) s or S acc, for gradients and whoever reads it.
constexpr Arithmetic exact(Requantization requantization) { return {requantization}; }

/// The integers of one node in the last step.
struct ExactValue {
  bool exact = false;                 ///< they are there: quantizers applied, no NaN came in
  AlignedBuffer codes;                ///< Codes: q - zp as f32 [elements]
  std::vector<int64_t> accumulators;  ///< Accumulators: [elements]
  std::vector<double>
      scales;  ///< Codes: one; Accumulators: one, or one for each index of the last axis
  /// Largest |q - zp| that the grid allows.
  int64_t limit = 0;
  /// Codes: stored in 16 bits; Accumulators: of products of such codes, which targets take in
  /// s64.
  bool wide = false;

  float* code() const { return reinterpret_cast<float*>(codes.data()); }
};

/// The integers of an operand. A Dropout on the way from their source takes them away while it
/// drops.
struct ExactOperand {
  const ExactValue* value = nullptr;
  std::vector<const NodeStatus*> dropouts = {};

  bool is_exact() const;
};

/// Puts integer arithmetic around the kernels of a tape's forward.
class ExactForward {
 public:
  /// What is asked while kernels are bound.
  struct Lookup {
    std::function<std::byte*(NodeId)> value;    ///< memory of a leaf
    std::function<ScaleSource(NodeId)> scales;  ///< of a quantizer's last forward
    std::function<const NodeStatus*(NodeId)> status;
  };

  ExactForward(const Graph& graph, Requantization requantization, int threads);

  /// What node `id` runs in forward, `kernel` being its op's own. Nodes are to be given in
  /// order; those without integers keep their kernel.
  Kernel around(NodeId id, Kernel kernel, const Binding& binding, const Lookup& lookup);
  /// The integers of the node, null where it has none.
  const ExactValue* find(NodeId id) const;

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
