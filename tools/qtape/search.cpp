#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <set>

#include "qtape/core/printable.h"
#include "qtape/engine/constants.h"
#include "qtape/model/bit_search.h"
#include "qtape/model/feed.h"
#include "qtape/model/targets.h"
#include "qtape/programs/console/terminal.h"
#include "qtape/programs/output_files.h"
#include "qtape/tools/qtape/commands.h"
#include "qtape/tools/qtape/json_report.h"
#include "qtape/tools/qtape/load_file.h"
#include "qtape/tools/qtape/options.h"
#include "qtape/tools/qtape/preparation.h"

namespace qtape::tool {

struct SearchCommand {
  std::string model;
  DataOptions data;
  int64_t budget = 0;  ///< bytes of weights
  QuantizationRecipe recipe;
  int64_t samples = 1000;
  std::string output;  ///< file for the model with the bits that were found; empty: none
  int threads = default_threads();
  std::string json = {};
};

namespace {

struct LayerBits {
  std::string weight;
  int64_t elements = 0;
  std::vector<double> losses;
  int64_t bits = 0;

  static constexpr auto fields() {
    using L = LayerBits;
    return std::tuple{field("weight", &L::weight, "label"),
                      field("elements", &L::elements, "of the weights"),
                      field("losses", &L::losses, "by candidate: increase of the loss"),
                      field("bits", &L::bits, "chosen number of bits")};
  }
};

struct SearchReport : TrainingPreparation {
  std::vector<int> candidates;
  std::vector<LayerBits> layers;
  int64_t bytes = 0;
  int64_t budget_bytes = 0;
  int64_t table_values = 0;

  static constexpr auto fields() {
    using R = SearchReport;
    return std::tuple_cat(
        std::tuple{field("candidate_bits", &R::candidates, "to choose from"),
                   field("layers", &R::layers, "in order"),
                   field("weight_bytes", &R::bytes, "of all with the chosen bits"),
                   field("budget_bytes", &R::budget_bytes, "upper bound on the bytes"),
                   field("table_values", &R::table_values,
                         "of Embedding tables, which have the bits of activations and are not "
                         "counted in bytes")},
        TrainingPreparation::fields());
  }
};

/// Returns the number of values of all tables that depend on no input.
int64_t table_values(const Graph& graph) {
  const std::vector<bool> constant = constant_nodes(graph);
  std::set<NodeId> tables;
  int64_t values = 0;
  for (const Node& node : graph.nodes()) {
    if (!std::holds_alternative<Embedding>(node.op)) continue;
    const NodeId table = node.operands[0];
    if (constant[at(table)] && tables.insert(table).second) {
      values += graph[table].type.elements();
    }
  }
  return values;
}

void add(SearchReport& report, const BitSearch& found, const BitSearchOptions& options) {
  report.candidates = options.candidates;
  report.bytes = found.bytes;
  report.budget_bytes = options.budget;
  for (const LayerSearch& layer : found.layers) {
    report.layers.push_back(
        {layer.weight, layer.elements, layer.losses, options.candidates[layer.chosen]});
  }
}

void print(const SearchReport& report) {
  fmt::print("{:<28} {:>10}", "increase of the loss by bits", "weights");
  for (const int bits : report.candidates) fmt::print(" {:>9}", fmt::format("{} bits", bits));
  fmt::print(" {:>8}\n", "chosen");
  for (const LayerBits& layer : report.layers) {
    fmt::print("{:<28} {:>10}", printable(layer.weight), layer.elements);
    for (const double loss : layer.losses) fmt::print(" {:>9.4g}", loss);
    fmt::print(" {:>8}\n", layer.bits);
  }
  fmt::print("{} bytes of weights within {}\n", report.bytes, report.budget_bytes);
  if (report.table_values > 0) {
    fmt::print("not counted: {} values of Embedding tables, with the bits of activations\n",
               report.table_values);
  }
}

}  // namespace

/// Finds the bits of each layer within a budget; prints their cost.
void search(const SearchCommand& command) {
  programs::OutputFiles files;
  // The model may be replaced, its data may not.
  files.reads(command.data.paths());
  files.expect_unread("--output", command.output);
  files.reads({command.model});
  files.expect_text("--json", command.json);
  SearchReport report;
  Model model(read_model(command.model, files));
  model = naming<GraphError>(command.model, [&] {
    Model plain(without_quantizers(model.graph()), model.parameters());
    return prepared(with_training_norms(std::move(plain), report), command.recipe.float_parts,
                    report);
  });
  const data::Split data = load_data(command.data, needs_of(command.model, model.graph()));
  if (compares_classes(model.graph(), data.train)) model = before_softmax(std::move(model));
  require_fit(model.graph(), model.graph().answers(), data.train);
  model = with_loss(std::move(model), data.train);
  const BitSearchOptions options{.budget = command.budget,
                                 .recipe = command.recipe,
                                 .samples = command.samples,
                                 .threads = command.threads,
                                 .on_trial = [](int64_t done, int64_t all) {
                                   console::redraw(fmt::format("{} of {} trials", done, all));
                                 }};
  const BitSearch found = naming<GraphError>(
      command.model, [&] { return search_bits(model, data.train, options); });
  console::clear_line();
  add(report, found, options);
  report.table_values = table_values(model.graph());
  print(report);
  if (!command.output.empty()) {
    const Model chosen =
        quantized(model, found.recipe, data.train, command.samples, command.threads);
    files.save(command.output, [&](const std::string& path) { chosen.save(path); });
  }
  write_report(files, command.json, report);
  files.require_written();
}

Command add_search(CLI::App& app) {
  const auto o = std::make_shared<SearchCommand>();
  CLI::App& search =
      *app.add_subcommand("search", "Choose the bits of each layer's weights within a budget");
  add_model(search, o->model);
  add_data(search, o->data, o->threads);
  add_json(search, o->json);
  o->data.trains = true;
  add_option(search, "--budget", o->budget, "maximum number of bytes of all weights",
             {1, int64_t{1} << 50})
      .default_str("")
      ->required();
  add_settings(search, o->recipe, &QuantizationRecipe::weight_bits,
               &QuantizationRecipe::ends_bits);
  add_float_parts(search, o->recipe.float_parts);
  add_option(search, "--samples", o->samples, "samples to measure on", {1, 1000000});
  search.add_option("-o,--output", o->output,
                    "write the calibrated model with these bits here");
  return {&search, [o] {
            qtape::tool::search(*o);
            return 0;
          }};
}

}  // namespace qtape::tool
