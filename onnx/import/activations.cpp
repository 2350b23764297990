// Activations that a file leaves out because the limits of its codes replace them.
#include <fmt/format.h>

#include <cmath>

#include "qtape/engine/quantizers.h"
#include "qtape/engine/rewrite.h"
#include "qtape/integer/rules/rule_table.h"
#include "qtape/integer/rules/signs.h"
#include "qtape/onnx/import/quantized.h"

namespace qtape {
namespace {

class RemovedActivations {
 public:
  RemovedActivations(const Graph& graph, const std::map<std::string, Tensor>& values)
      : graph_(graph),
        values_(values),
        signs_(graph, [&](NodeId id) { return starts_at_zero(id); }) {}

  Graph run() {
    Graph result;
    (void)rewrite(graph_, result, [&](NodeId id, std::span<const NodeId> operands) {
      std::vector<NodeId> own(operands.begin(), operands.end());
      if (const auto high = limit_of(id)) own[0] = result.add(activation(*high), {own[0]});
      return result.add(graph_[id].op, own, graph_[id].label);
    });
    return result;
  }
  int64_t relus() const { return relus_; }
  int64_t clamps() const { return clamps_; }

 private:
  /// True for a quantizer with one scale whose lowest code is 0.
  bool starts_at_zero(NodeId id) const {
    const Node& node = graph_[id];
    const auto* op = std::get_if<FakeQuantize>(&node.op);
    if (op == nullptr || channel_map(graph_, id).channels != 1) return false;
    const double zero = op->scheme == Scheme::Affine ? number(node.operands[2]) : 0;
    return zero == grid_of(graph_, id).limits.q_min;
  }

  /// Returns the value of the highest code of a quantizer whose codes replace an activation.
  std::optional<double> limit_of(NodeId id) {
    if (!starts_at_zero(id)) return std::nullopt;
    const Node& node = graph_[id];
    const NodeId x = node.operands[0];
    if (!is_computed(x) || signs_.never_negative(x)) return std::nullopt;
    const CodeLimits codes = grid_of(graph_, id).limits;
    return (codes.q_max - codes.q_min) * number(node.operands[1]);
  }

  /// True for the value of an op that does more than move elements of an input or a parameter.
  bool is_computed(NodeId id) const {
    while (is_view(graph_[id].op) || keeps_codes(graph_[id].op)) id = graph_[id].operands[0];
    return !graph_[id].operands.empty();
  }

  double number(NodeId state) const {
    return values_.at(graph_[state].label).values<float>()[0];
  }

  /// Codes that end at 6 replace a Relu6.
  Op activation(double high) {
    constexpr double six = 6;
    const bool limited = std::fabs(high - six) <= six * 0x1p-20;
    ++(limited ? clamps_ : relus_);
    if (limited) return Clamp{.low = 0, .high = six};
    return Relu{};
  }

  const Graph& graph_;
  const std::map<std::string, Tensor>& values_;
  Signs signs_;
  int64_t relus_ = 0;
  int64_t clamps_ = 0;
};

}  // namespace

Graph with_activations(const Graph& graph, const std::map<std::string, Tensor>& values,
                       std::vector<std::string>* notes) {
  RemovedActivations activations(graph, values);
  Graph result = activations.run();
  const int64_t all = activations.relus() + activations.clamps();
  if (all > 0 && notes != nullptr) {
    notes->push_back(
        fmt::format("quantizers with codes from 0 on imply activations, which become nodes: {} "
                    "Relu and {} Clamp from 0 to 6",
                    activations.relus(), activations.clamps()));
  }
  return result;
}

}  // namespace qtape
