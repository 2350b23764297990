#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "qtape/core/printable.h"
#include "qtape/engine/quantizers.h"
#include "qtape/engine/serialize.h"
#include "qtape/io/files.h"
#include "qtape/programs/console/subprocess.h"
#include "qtape/programs/output_files.h"
#include "qtape/tools/qtape/commands.h"
#include "qtape/tools/qtape/json_report.h"
#include "qtape/tools/qtape/load_file.h"
#include "qtape/tools/qtape/options.h"

namespace qtape::tool {

namespace {

constexpr int64_t largest_drawing = int64_t{1} << 30;

/// Returns the colour of quantizers by their bits, from warm for few to cool for many.
const char* colour_of(int bits) {
  if (bits <= 2) return "#f4a6a0";
  if (bits == 3) return "#f6c89f";
  if (bits == 4) return "#f3e3a1";
  if (bits <= 6) return "#d5e8a8";
  if (bits <= 8) return "#b4dfb4";
  return "#a9cfe8";
}

int bits_of(CodeLimits limits) {
  int bits = 1;
  while ((int64_t{1} << bits) <= limits.q_max - limits.q_min) ++bits;
  return bits;
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

std::string scales_text(const Graph& graph, const Parameters& parameters, NodeId id) {
  const auto found = qparams(graph, parameters, id);
  if (found.empty()) return "scale of each batch";
  const auto [low, high] = std::ranges::minmax(found, {}, &QParams<double>::scale);
  if (found.size() == 1) {
    return fmt::format("scale {:.3g}, zero point {}", low.scale, low.zero_point);
  }
  return fmt::format("{} scales, {:.3g} to {:.3g}", found.size(), low.scale, high.scale);
}

struct GraphReport {
  int64_t nodes = 0;
  int64_t edges = 0;
  int64_t bytes = 0;

  static constexpr auto fields() {
    using R = GraphReport;
    return std::tuple{field("nodes", &R::nodes, "that are drawn"),
                      field("edges", &R::edges, "between them"),
                      field("bytes", &R::bytes, "of the file")};
  }
};

class Drawing {
 public:
  explicit Drawing(const SavedModel& model)
      : graph_(model.graph), parameters_(model.parameters) {}

  std::string run() {
    text_ =
        "digraph model {\n  rankdir=TB;\n  node [shape=box, style=\"filled,rounded\", "
        "fontname=\"sans-serif\", fontsize=11, fillcolor=white];\n  edge "
        "[color=\"#777777\"];\n";
    for (const NodeId id : ids(graph_)) draw(id);
    for (const NodeId id : graph_.outputs()) {
      text_ += fmt::format("  n{} [penwidth=2.5];\n", id.index);
    }
    return text_ + "}\n";
  }
  int64_t nodes() const { return nodes_; }
  int64_t edges() const { return edges_; }

 private:
  void draw(NodeId id) {
    const Node& node = graph_[id];
    if (std::holds_alternative<State>(node.op)) return;  // shown at the node that uses it
    std::string label = node.label.empty() ? "" : printable(node.label) + "\n";
    label += fmt::format("{}\n{}", name_of(node.op), to_string(node.type));
    std::string colour = "#ffffff";
    if (is_quantizer(node.op)) {
      const CodeLimits limits = grid_of(graph_, id).limits;
      colour = colour_of(bits_of(limits));
      label += fmt::format("\n{} bits, codes {}..{}\n{}", bits_of(limits), limits.q_min,
                           limits.q_max, scales_text(graph_, parameters_, id));
    } else if (std::holds_alternative<Parameter>(node.op)) {
      colour = "#e6e6e6";
    } else if (std::holds_alternative<Input>(node.op)) {
      colour = "#cfd8f0";
    }
    text_ += fmt::format("  n{} [label={}, fillcolor=\"{}\"];\n", id.index, dot_string(label),
                         colour);
    ++nodes_;
    for (const NodeId from : node.operands) {
      if (std::holds_alternative<State>(graph_[from].op)) continue;
      text_ += fmt::format("  n{} -> n{};\n", from.index, id.index);
      ++edges_;
    }
  }

  const Graph& graph_;
  const Parameters& parameters_;
  std::string text_;
  int64_t nodes_ = 0;
  int64_t edges_ = 0;
};

/// Returns the SVG that Graphviz draws from `dot`.
std::string drawn(const std::string& dot) {
  require<IoError>(has_program("dot"),
                   "cannot run dot: it is not in PATH; install Graphviz, or write a .dot file "
                   "instead");
  const TemporaryFolder folder;
  const std::string in = folder.file("in.dot"), out = folder.file("out.svg");
  write_file(in, dot);
  const Finished finished = run_program({"dot", "-Tsvg", in, "-o", out});
  require<IoError>(finished.exit_code == 0, "dot failed with status {}:\n{}",
                   finished.exit_code, finished.output);
  return read_file(out, largest_drawing);
}

}  // namespace

/// Draws a model's graph as SVG by Graphviz, or writes it as DOT, depending on the file
/// extension.
void draw_graph(const std::string& model, const std::string& output, const std::string& json) {
  const bool dot = output.ends_with(".dot");
  require<ArgumentError>(dot || output.ends_with(".svg"),
                         "--output: expected a name that ends in .svg or .dot, got {}",
                         printable(output));
  examples::OutputFiles files;
  files.reads({model});
  files.expect_unread("--output", output);
  files.expect_text("--json", json);
  const SavedModel loaded = read_model(model, files);
  Drawing drawing(loaded);
  const std::string text = drawing.run();
  const std::string content = dot ? text : drawn(text);
  const GraphReport report{drawing.nodes(), drawing.edges(),
                           static_cast<int64_t>(content.size())};
  fmt::print("{} nodes, {} edges, {} bytes\n", report.nodes, report.edges, report.bytes);
  files.save(output, [&](const std::string& path) { write_file(path, content); });
  write_report(files, json, report);
  files.require_written();
}

Command add_graph(CLI::App& app) {
  struct Options {
    std::string model;
    std::string output;
    std::string json;
  };
  const auto o = std::make_shared<Options>();
  CLI::App& graph = *app.add_subcommand("graph", "Draw a model's graph");
  add_model(graph, o->model);
  add_output(graph, o->output, "file to write: .svg, by Graphviz, or .dot");
  add_json(graph, o->json);
  return {&graph, [o] {
            qtape::tool::draw_graph(o->model, o->output, o->json);
            return 0;
          }};
}

}  // namespace qtape::tool
