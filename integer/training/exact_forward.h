// Exact forward pass: replaces kernels of a tape by the integer ops of the program that the
// graph converts to. Scales, zero points, weights and biases are refreshed in each step.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "qtape/integer/core/integer_binding.h"
#include "qtape/integer/rules/analysis.h"
#include "qtape/integer/training/exact.h"

namespace qtape {

/// There are two kinds of steps. A full step computes the float value of every node, which
/// gradients and observers read. A lean step belongs to a tape without gradients, in a mode
/// that neither trains nor observes, and computes only the floats that are read. If a NaN makes
/// integers unavailable, the lean step is repeated as a full one.
class ExactForward : public ForwardArithmetic {
 public:
  /// `encodes`: values of quantizers may be held as codes.
  ExactForward(const Graph& graph, Requantization requantization, int threads,
               ExactOptions options, bool encodes);
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
  class Operation;
  class Pending;
  struct Operand;
  /// A quantizer applied to integers, and the memory of its operands after x.
  struct Requantizer {
    NodeId id;
    std::vector<std::byte*> values;
  };
  struct Product;

  const IntegerForm& form(NodeId id) const { return analysis_[id]; }
  const Node& node(NodeId id) const { return graph_[id]; }
  /// True if the node has integers of its own in memory.
  bool owns(NodeId id) const;
  /// True if the quantizer of `x` reads integers. For functions of codes it reads floats, as
  /// the lookup table of the program does.
  bool is_requantized(NodeId x) const;
  /// Returns the sources whose integers node `id` reads.
  std::vector<NodeId> sources_read(NodeId id) const;
  void add_sources(NodeId x, std::vector<NodeId>& to) const;
  bool reads_floats(NodeId id) const;
  void find_folded();
  void find_float_readers();
  void find_computed_biases();

  ExactValue& value(NodeId source) { return values_[static_cast<size_t>(source.index)]; }
  Operand operand(NodeId id) const;
  const float* bias_values(NodeId bias) const;
  /// Returns the kernel that replaces the one of the node.
  Kernel replaced(NodeId id, Kernel kernel, const Binding& binding);
  Kernel floats(NodeId id, Kernel kernel) const;
  Kernel quantizer(NodeId id, Kernel kernel, const Binding& binding);
  Kernel requantizer(NodeId id, Kernel kernel, const Binding& binding);
  Kernel operation(NodeId id, Kernel kernel, const Binding& binding);
  Kernel operation_on_codes(const Operand& x, ExactValue& own, Kernel kernel);
  Kernel product(NodeId id, Kernel kernel, const Binding& binding);
  std::byte* memory(NodeId source) const {
    return encoded_[at(source)] ? lookup_.value(source) : lookup_.companion(source);
  }
  /// True if all readers of `id`, and of views of it, read only codes.
  bool is_read_as_codes(NodeId id, const std::vector<std::vector<NodeId>>& readers) const;
  /// True if both operands of a product are held as codes.
  bool multiplies_codes(NodeId product) const;
  Kernel folded(NodeId id, Kernel kernel);
  std::shared_ptr<Product> make_product(NodeId source);

  Graph graph_;
  IntegerAnalysis analysis_;
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
