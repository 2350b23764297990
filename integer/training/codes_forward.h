// Forward pass on codes: products of quantized operands are computed on their codes, everything
// else in floats.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "qtape/integer/training/exact.h"
#include "qtape/integer/training/lowered_graph.h"

namespace qtape {

/// A product, optionally followed by a bias and limits, where only these nodes read the
/// intermediate values. It runs as one pass from codes to floats, at the last of these nodes.
struct ProductChain {
  NodeId product;
  NodeId bias;  ///< the operand that is added; index -1 if none
  NodeId end;   ///< the last node
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
};

class CodesForward : public ForwardArithmetic {
 public:
  CodesForward(std::shared_ptr<const LoweredGraph> lowered, int threads);
  ~CodesForward() override;

  Encoding encoding(std::span<const NodeId> kept, bool backward) override;
  bool takes_codes(NodeId id) const override;
  void bind(const Lookup& lookup) override { lookup_ = lookup; }
  Kernel around(NodeId id, Kernel kernel, const Binding& binding) override;

 private:
  const Graph& graph() const { return *lowered_->graph; }
  const Node& node(NodeId id) const { return graph()[id]; }
  const LoweredOp& lowered(NodeId source) const { return lowered_->integers.op(source); }
  /// Returns the node of which `id` is a view (or `id` itself), if that node can be held as
  /// 8-bit codes.
  std::optional<NodeId> code_source(NodeId id) const;
  bool may_hold_codes(NodeId id) const;
  void find_candidates(std::span<const NodeId> kept);
  void find_chains(std::span<const NodeId> kept);
  std::optional<ProductChain> chain_of(NodeId product, std::span<const NodeId> kept) const;
  Kernel run_chain(const ProductChain& chain, const Binding& binding) const;

  std::shared_ptr<const LoweredGraph> lowered_;
  int threads_;
  Lookup lookup_;
  std::vector<std::vector<NodeId>> readers_;  // by node
  std::vector<bool> candidates_;              // by node: may be held as codes
  std::vector<bool> within_;                  // by node: computed by the end of its chain
  std::vector<std::optional<ProductChain>> chains_;  // by node: the chain that ends there
};

}  // namespace qtape
