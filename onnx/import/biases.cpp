// Biases of products of codes.
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <optional>

#include "qtape/engine/labels.h"
#include "qtape/engine/quantizers.h"
#include "qtape/engine/rewrite.h"
#include "qtape/integer/rules/quantizer_of.h"
#include "qtape/integer/rules/rule_table.h"
#include "qtape/kernels/quantize/quantize.h"
#include "qtape/onnx/import/quantized.h"

namespace qtape {
namespace {

std::vector<float> scales_of(const Graph& graph, NodeId quantizer,
                             const std::map<std::string, Tensor>& values) {
  const auto scales = values.at(graph[graph[quantizer].operands[1]].label).values<float>();
  return {scales.begin(), scales.end()};
}

/// Returns a note if values of a bias are not on the grid of its sums: further from it than
/// two roundings to f32 move them.
std::optional<std::string> changed_bias(const Graph& graph,
                                        const std::array<NodeId, 3>& operands,
                                        const std::map<std::string, Tensor>& values) {
  const std::string& label = graph[operands[0]].label;
  const auto bias = values.at(label).values<float>();
  const std::vector<float> x = scales_of(graph, operands[1], values);
  const std::vector<float> w = scales_of(graph, operands[2], values);
  size_t changed = 0;
  for (size_t c = 0; c < bias.size(); ++c) {
    const double s_x = x[0], s_w = w[c % w.size()], b = bias[c];
    const double value = kernels::bias_value(kernels::bias_code(b, s_x, s_w), s_x, s_w);
    if (std::fabs(value - b) > std::fabs(b) * 0x1p-22) ++changed;
  }
  if (changed == 0) return std::nullopt;
  return fmt::format(
      "'{}': {} of {} biases are rounded to multiples of the scale of their sums", label,
      changed, bias.size());
}

/// Adds the rounding of a bias, for the scales of an input and weights, once.
NodeId rounded_bias(Graph& graph, const std::array<NodeId, 3>& operands,
                    std::map<std::array<int, 3>, NodeId>& known,
                    const std::map<std::string, Tensor>& values,
                    std::vector<std::string>* notes) {
  const std::array<int, 3> key = {operands[0].index, operands[1].index, operands[2].index};
  if (const auto found = known.find(key); found != known.end()) return found->second;
  const auto note = changed_bias(graph, operands, values);
  if (note && notes != nullptr) notes->push_back(*note);
  const std::string label = unused_label(graph, graph[operands[0]].label + ".quantized");
  const NodeId id = graph.add(FakeQuantizeBias{}, {operands.begin(), operands.end()}, label);
  known.emplace(key, id);
  return id;
}

}  // namespace

Graph with_rounded_biases(const Graph& graph, const std::map<std::string, Tensor>& values,
                          std::vector<std::string>* notes) {
  Graph result;
  std::map<std::array<int, 3>, NodeId> known;  // of a bias, its input and weights
  (void)rewrite(graph, result, [&](NodeId id, std::span<const NodeId> operands) {
    const Node& node = graph[id];
    std::vector<NodeId> own(operands.begin(), operands.end());
    const bool parameter =
        adds_bias(node.op) && std::holds_alternative<Parameter>(result[own[1]].op);
    if (parameter && result[own[0]].operands.size() >= 2) {
      const Node& product = result[own[0]];
      const NodeId x = product.operands[0], w = product.operands[1];
      if (accumulators_have_grid(result, product.op, x, w)) {
        own[1] = rounded_bias(result, {own[1], *preceding_quantizer(result, x), w}, known,
                              values, notes);
      }
    }
    return result.add(node.op, own, node.label);
  });
  return result;
}

}  // namespace qtape
