// Exact forward pass: replaces kernels of a tape by the integer ops of the program that the
// graph converts to. Scales, zero points, weights and biases are refreshed in each step.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "qtape/engine/forward_arithmetic.h"
#include "qtape/integer/core/integer_binding.h"
#include "qtape/integer/training/exact.h"
#include "qtape/integer/training/lowered_graph.h"

namespace qtape {

/// There are two kinds of steps. A full step computes the float value of every node, which
/// gradients and observers read. A lean step belongs to a tape without gradients, in a mode
/// that neither trains nor observes, and computes only the floats that are read. If a NaN makes
/// integers unavailable, the lean step is repeated as a full one.
class ExactForward : public ForwardArithmetic {
 public:
  /// `encodes`: values of quantizers may be held as codes.
  ExactForward(std::shared_ptr<const LoweredGraph> lowered, Requantization requantization,
               int threads, ExactOptions options, bool encodes);
  ~ExactForward() override;

  Encoding encoding(std::span<const NodeId> kept, bool backward) override;
  bool takes_codes(NodeId id) const override { return takes_codes_[at(id)]; }
  std::vector<Companion> companions(std::span<const NodeId> kept) override;
  void bind(const Lookup& lookup) override;
  std::byte* codes(NodeId id) const override;
  Kernel around(NodeId id, Kernel kernel, const Binding& binding) override;
  void begin(const Step& step) override;
  bool repeats() const override { return repeats_; }
  const ExactValue* find(NodeId id) const override;

 private:
  class BoundOp;
  class Operation;
  struct Operand;
  struct Factors;
  struct NormLeaves;
  struct Inputs;
  /// A quantizer applied to integers, and the memory of its operands after x.
  struct Requantizer {
    NodeId id;
    std::vector<std::byte*> values;
  };

  const Graph& graph() const { return *lowered_->graph; }
  const IntegerForm& form(NodeId id) const { return lowered_->integers[id]; }
  const LoweredOp& lowered(NodeId source) const { return lowered_->integers.op(source); }
  const Node& node(NodeId id) const { return graph()[id]; }
  /// True if the node has integers of its own in memory.
  bool owns(NodeId id) const;
  /// True for the source of s32 indices, which kernels of the tape compute.
  bool is_index(NodeId id) const {
    return form(id).kind == IntegerKind::Indices && form(id).source == id;
  }
  /// True if the codes of a source are computed from floats: those of quantizers of floats, and
  /// of functions of codes, which the lookup table of the program evaluates in floats.
  bool reads_values(NodeId source) const;
  /// Returns the sources whose integers node `id` reads.
  std::vector<NodeId> sources_read(NodeId id) const;
  bool reads_floats(NodeId id) const;
  void find_folded();
  void find_float_readers();
  void find_computed_biases();

  ExactValue& value(NodeId source) { return values_[at(source)]; }
  void bind_indices(NodeId id);
  Operand operand(NodeId id);
  Factors factors_of(const LoweredOp& product);
  NormLeaves leaves_of(const LoweredNorm& norm) const;
  Inputs inputs_of(const LoweredOp& op);
  /// Returns accumulators of any zero point, with scales that are not known yet.
  IntegerValue accumulators(NodeId source);
  const float* bias_values(NodeId bias) const;
  /// Returns the kernel that replaces the one of the node.
  Kernel replaced(NodeId id, Kernel kernel, const Binding& binding);
  Kernel floats(NodeId id, Kernel kernel) const;
  Kernel quantizer(NodeId id, Kernel kernel, const Binding& binding);
  Kernel requantizer(NodeId id, Kernel kernel, const Binding& binding);
  Kernel computed(NodeId id, Kernel kernel, const Binding& binding);
  Kernel computed_on_codes(NodeId id, Kernel kernel);
  std::shared_ptr<BoundOp> decoder(NodeId source, std::byte* to);
  std::byte* memory(NodeId source) const {
    const bool of_tape = encoded_[at(source)] || is_index(source);
    return of_tape ? lookup_.value(source) : lookup_.companion(source);
  }
  /// True if all readers of `id`, and of views of it, read only codes.
  bool is_read_as_codes(NodeId id, const std::vector<std::vector<NodeId>>& readers) const;
  /// True if both operands of a product are held as codes.
  bool multiplies_codes(NodeId product) const;
  Kernel folded(NodeId id, Kernel kernel);

  std::shared_ptr<const LoweredGraph> lowered_;
  Requantization requantization_;
  int threads_;
  bool keep_;
  Lookup lookup_;
  std::vector<bool> kept_;          // by node
  std::vector<bool> folded_;        // by node: a product that only biases read
  std::vector<bool> float_needed_;  // by node: needed in lean steps
  std::vector<ExactValue> values_;  // by node: valid for sources
  bool encodes_;
  std::vector<bool> encoded_;      // by node: sources whose value is held as codes
  std::vector<bool> takes_codes_;  // by node: reads such values as codes
  std::map<NodeId, std::vector<float>> computed_biases_;  // of this step: biases that are not
                                                          // leaves
  std::vector<Requantizer> requantizers_;
  std::vector<const NodeStatus*> quantizers_;
  bool lean_ = false;
  bool repeats_ = false;
};

}  // namespace qtape
