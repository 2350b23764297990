#include "qtape/tools/qtape/drawing.h"

#include <fmt/format.h>

#include <algorithm>

#include "qtape/core/printable.h"
#include "qtape/deploy/multipliers.h"
#include "qtape/engine/quantizers.h"
#include "qtape/integer/program/integer_node.h"

namespace qtape::tool {
namespace {

constexpr const char* input_colour = "#cfd8f0";
constexpr const char* constant_colour = "#e6e6e6";
constexpr const char* plain_colour = "#ffffff";

/// Returns the colour of codes by their bits, from warm for few to cool for many.
const char* colour_of(int bits) {
  if (bits <= 2) return "#f4a6a0";
  if (bits == 3) return "#f6c89f";
  if (bits == 4) return "#f3e3a1";
  if (bits <= 6) return "#d5e8a8";
  if (bits <= 8) return "#b4dfb4";
  return "#a9cfe8";
}

int bits_between(int64_t low, int64_t high) {
  int bits = 1;
  while ((int64_t{1} << bits) <= high - low) ++bits;
  return bits;
}

/// Returns `\n8 bits, codes -128..127`.
std::string codes_text(int64_t low, int64_t high) {
  return fmt::format("\n{} bits, codes {}..{}", bits_between(low, high), low, high);
}

std::string scale_text(double scale, double zero_point) {
  return fmt::format("\nscale {:.3g}, zero point {}", scale, zero_point);
}
std::string scales_text(size_t count, double low, double high) {
  return fmt::format("\n{} scales, {:.3g} to {:.3g}", count, low, high);
}

/// Escapes a text for use between quotes in DOT.
std::string dot_string(const std::string& text) {
  std::string result = "\"";
  for (const char each : text) {
    if (each == '"' || each == '\\') result += '\\';
    result += each;
  }
  return result + "\"";
}

/// A drawing that grows by nodes.
class Dot {
 public:
  /// Adds a node; `text` follows its label, op and type.
  template <class Nodes, class Id>
  void node(const Nodes& nodes, Id id, const std::string& text, const char* colour) {
    const auto& node = nodes[id];
    const std::string label = node.label.empty() ? "" : printable(node.label) + "\n";
    drawn_.text += fmt::format("  n{} [label={}, fillcolor=\"{}\"];\n", id.index,
                               dot_string(fmt::format("{}{}\n{}{}", label, name_of(node.op),
                                                      to_string(type_of(node)), text)),
                               colour);
    ++drawn_.nodes;
  }
  template <class Id>
  void edge(Id from, Id to) {
    drawn_.text += fmt::format("  n{} -> n{};\n", from.index, to.index);
    ++drawn_.edges;
  }
  template <class Nodes>
  Drawing with_outputs(const Nodes& nodes) {
    for (const auto id : nodes.outputs()) {
      drawn_.text += fmt::format("  n{} [penwidth=2.5];\n", id.index);
    }
    drawn_.text += "}\n";
    return std::move(drawn_);
  }

 private:
  Drawing drawn_{
      "digraph model {\n  rankdir=TB;\n  node [shape=box, style=\"filled,rounded\", "
      "fontname=\"sans-serif\", fontsize=11, fillcolor=white];\n  edge "
      "[color=\"#777777\"];\n"};
};

std::string scales_of(const SavedModel& model, NodeId id) {
  const auto found = qparams(model.graph, model.parameters, id);
  if (found.empty()) return "\nscale of each batch";
  const auto [low, high] = std::ranges::minmax(found, {}, &QParams<double>::scale);
  if (found.size() > 1) return scales_text(found.size(), low.scale, high.scale);
  return scale_text(low.scale, low.zero_point);
}

void draw_node(Dot& dot, const SavedModel& model, NodeId id) {
  const Graph& graph = model.graph;
  const Node& node = graph[id];
  if (std::holds_alternative<State>(node.op)) return;  // shown at the node that uses it
  std::string text;
  const char* colour = plain_colour;
  if (is_quantizer(node.op)) {
    const CodeLimits limits = grid_of(graph, id).limits;
    colour = colour_of(bits_between(limits.q_min, limits.q_max));
    text = codes_text(limits.q_min, limits.q_max) + scales_of(model, id);
  } else if (std::holds_alternative<Parameter>(node.op)) {
    colour = constant_colour;
  } else if (std::holds_alternative<Input>(node.op)) {
    colour = input_colour;
  }
  dot.node(graph, id, text, colour);
  for (const NodeId from : node.operands) {
    if (!std::holds_alternative<State>(graph[from].op)) dot.edge(from, id);
  }
}

/// Returns the multipliers of a node: one, or those of the smallest and the largest scale.
std::string multipliers_text(const IntegerProgram& program, ProgramNodeId id) {
  std::string text;
  for (const NodeMultiplier& each : multipliers_of({program, id})) {
    if (each.channels.size() == 1) {
      text += fmt::format("\n{} {}", each.what, each.channels[0]);
      continue;
    }
    const auto& scales = program[program[id].operands[0]].value.scales;
    const auto [low, high] = std::ranges::minmax_element(scales);
    const auto of = [&](auto scale) {
      return each.channels[static_cast<size_t>(scale - scales.begin())];
    };
    text +=
        fmt::format("\n{} {}s, {} to {}", each.channels.size(), each.what, of(low), of(high));
  }
  return text;
}

std::string value_text_of(const IntegerNode& node) {
  const IntegerValue& value = node.value;
  if (value.scales.empty()) return "";
  std::string text;
  if (value.is_codes()) text = codes_text(value.low, value.high);
  if (value.scales.size() > 1) {
    const auto [low, high] = std::ranges::minmax(value.scales);
    return text + scales_text(value.scales.size(), low, high);
  }
  if (is_indices(value)) return fmt::format("\nindices {}..{}", value.low, value.high);
  return text + scale_text(value.scales[0], value.zero_point);
}

void draw_node(Dot& dot, const IntegerProgram& program, ProgramNodeId id) {
  const IntegerNode& node = program[id];
  std::string text;
  const char* colour = plain_colour;
  if (const QuantizedWeights* weights = weights_of(node.op)) {
    colour = colour_of(weights->storage_bits);
    text = fmt::format("\nweights {} of {} bits", to_string(weights->shape),
                       weights->storage_bits);
  } else if (std::holds_alternative<integer::Input>(node.op)) {
    colour = input_colour;
  } else if (std::holds_alternative<integer::Constant>(node.op)) {
    colour = constant_colour;
  } else if (grid_of(node.op) != nullptr) {
    colour = colour_of(bits_between(node.value.low, node.value.high));
  }
  dot.node(program, id, text + value_text_of(node) + multipliers_text(program, id), colour);
  for (const ProgramNodeId from : node.operands) dot.edge(from, id);
}

template <class Nodes, class Content>
Drawing drawing_of(const Nodes& nodes, const Content& content) {
  Dot dot;
  for (const auto id : ids(nodes)) draw_node(dot, content, id);
  return dot.with_outputs(nodes);
}

}  // namespace

Drawing draw(const SavedModel& model) { return drawing_of(model.graph, model); }
Drawing draw(const IntegerProgram& program) { return drawing_of(program, program); }

}  // namespace qtape::tool
