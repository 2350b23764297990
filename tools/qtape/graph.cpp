#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "qtape/core/printable.h"
#include "qtape/io/files.h"
#include "qtape/programs/console/subprocess.h"
#include "qtape/programs/output_files.h"
#include "qtape/tools/qtape/commands.h"
#include "qtape/tools/qtape/drawing.h"
#include "qtape/tools/qtape/json_report.h"
#include "qtape/tools/qtape/load_file.h"
#include "qtape/tools/qtape/options.h"

namespace qtape::tool {

namespace {

constexpr int64_t largest_drawing = int64_t{1} << 30;

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

/// Draws a model's graph or an integer program as SVG by Graphviz, or writes it as DOT,
/// depending on the file extension.
void draw_graph(const std::string& file, const std::string& output, const std::string& json) {
  const bool dot = output.ends_with(".dot");
  require<ArgumentError>(dot || output.ends_with(".svg"),
                         "--output: expected a name that ends in .svg or .dot, got {}",
                         printable(output));
  programs::OutputFiles files;
  files.reads({file});
  files.expect_unread("--output", output);
  files.expect_text("--json", json);
  const Drawing drawing =
      std::visit([](const auto& content) { return draw(content); }, load_file(file, files));
  const std::string content = dot ? drawing.text : drawn(drawing.text);
  const GraphReport report{drawing.nodes, drawing.edges, static_cast<int64_t>(content.size())};
  fmt::print("{} nodes, {} edges, {} bytes\n", report.nodes, report.edges, report.bytes);
  files.save(output, [&](const std::string& path) { write_file(path, content); });
  write_report(files, json, report);
  files.require_written();
}

Command add_graph(CLI::App& app) {
  struct Options {
    std::string file;
    std::string output;
    std::string json;
  };
  const auto o = std::make_shared<Options>();
  CLI::App& graph = *app.add_subcommand("graph", "Draw a model's graph or an integer program");
  add_file(graph, o->file);
  add_output(graph, o->output, "file to write: .svg, by Graphviz, or .dot");
  add_json(graph, o->json);
  return {&graph, [o] {
            qtape::tool::draw_graph(o->file, o->output, o->json);
            return 0;
          }};
}

}  // namespace qtape::tool
