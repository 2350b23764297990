#include "qtape/engine/insert_quantizers.h"

#include <map>

#include "qtape/engine/quantizers.h"
#include "qtape/ops/core/pattern.h"

namespace qtape {
namespace {

template <class T>
constexpr bool is_quantizer_op = Quantizer<T>;

/// `quantizer` for a weight whose output channels are its last axis.
Op along_columns(Op quantizer) {
  std::visit(
      [](auto& op) {
        if constexpr (is_quantizer_op<std::decay_t<decltype(op)>>) {
          if (op.axis) op.axis = *op.axis == 0 ? -1 : -2;
        }
      },
      quantizer);
  return quantizer;
}

class Inserter {
 public:
  Inserter(const Graph& graph, const InsertOptions& options)
      : graph_(graph), options_(options), copies_(static_cast<size_t>(graph.size())) {}

  Graph run() {
    for (int32_t i = 0; i < graph_.size(); ++i) copy(NodeId{i});
    check(inserted_ > 0,
          "no MatMul has an unquantized Parameter that matches '{}' as operand 1",
          options_.pattern);
    std::vector<NodeId> outputs;
    for (NodeId id : graph_.outputs()) outputs.push_back(at(id));
    result_.set_outputs(outputs);
    return std::move(result_);
  }

 private:
  NodeId& at(NodeId id) { return copies_[static_cast<size_t>(id.index)]; }

  void copy(NodeId id) {
    const Node& node = graph_[id];
    std::vector<NodeId> operands;
    for (NodeId operand : node.operands) operands.push_back(at(operand));
    if (const auto* matmul = std::get_if<MatMul>(&node.op)) quantize(node, *matmul, operands);
    at(id) = result_.add(node.op, operands, node.label);
  }

  void quantize(const Node& node, const MatMul& matmul, std::vector<NodeId>& operands) {
    const Node& weight = graph_[node.operands[1]];
    if (!std::holds_alternative<Parameter>(weight.op)) return;
    if (!matches(options_.pattern, weight.label)) return;
    const std::string suffix = ".weight";
    const bool usual = weight.label.ends_with(suffix);
    const std::string stem =
        usual ? weight.label.substr(0, weight.label.size() - suffix.size()) : weight.label;
    if (options_.weight) {
      const Op op = matmul.transpose_b ? *options_.weight : along_columns(*options_.weight);
      operands[1] = quantized(node.operands[1], op, weight.label);
    }
    if (options_.input && !is_quantizer(graph_[node.operands[0]].op)) {
      operands[0] = quantized(node.operands[0], *options_.input, stem + ".input");
    }
  }

  /// The quantizer behind the copy of x, made where there is none yet.
  NodeId quantized(NodeId x, const Op& quantizer, const std::string& label) {
    const auto found = quantized_.find(x);
    if (found != quantized_.end()) return found->second;
    ++inserted_;
    return quantized_[x] = add_quantizer(result_, at(x), quantizer, label);
  }

  const Graph& graph_;
  const InsertOptions& options_;
  Graph result_;
  std::vector<NodeId> copies_;
  std::map<NodeId, NodeId> quantized_;
  int inserted_ = 0;
};

}  // namespace

Graph insert_quantizers(const Graph& graph, const InsertOptions& options) {
  return Inserter(graph, options).run();
}

}  // namespace qtape
