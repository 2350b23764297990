#include <fmt/format.h>

#include "qtape/console/terminal.h"
#include "qtape/core/printable.h"
#include "qtape/examples/shared/output_files.h"
#include "qtape/model/bit_search.h"
#include "qtape/tools/qtape/commands.h"
#include "qtape/tools/qtape/json_report.h"
#include "qtape/tools/qtape/preparation.h"

namespace qtape::tool {

namespace {

struct LayerBits {
  std::string weight;
  int64_t elements = 0;
  std::vector<double> losses;
  int64_t bits = 0;

  static constexpr auto fields() {
    using L = LayerBits;
    return std::tuple{field("weight", &L::weight, "label"),
                      field("elements", &L::elements, "of it"),
                      field("losses", &L::losses, "by candidate: loss that so few bits add"),
                      field("bits", &L::bits, "that were chosen")};
  }
};

struct SearchReport : Preparation {
  std::vector<int> candidates;
  std::vector<LayerBits> layers;
  int64_t bytes = 0;
  int64_t budget_bytes = 0;

  static constexpr auto fields() {
    using R = SearchReport;
    return std::tuple_cat(
        std::tuple{field("candidate_bits", &R::candidates, "to choose from"),
                   field("layers", &R::layers, "in order"),
                   field("weight_bytes", &R::bytes, "of all with the chosen bits"),
                   field("budget_bytes", &R::budget_bytes, "most that they may take")},
        Preparation::fields());
  }
};

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
  fmt::print("{:<28} {:>10}", "loss that so few bits add", "weights");
  for (const int bits : report.candidates) fmt::print(" {:>9}", fmt::format("{} bits", bits));
  fmt::print(" {:>8}\n", "chosen");
  for (const LayerBits& layer : report.layers) {
    fmt::print("{:<28} {:>10}", printable(layer.weight), layer.elements);
    for (const double loss : layer.losses) fmt::print(" {:>9.4g}", loss);
    fmt::print(" {:>8}\n", layer.bits);
  }
  fmt::print("{} bytes of weights within {}\n", report.bytes, report.budget_bytes);
}

}  // namespace

void search(const SearchCommand& command) {
  examples::OutputFiles files;
  files.expect("--output", command.output);
  files.reads({command.model});
  files.reads(command.data.paths());
  files.expect_text("--json", command.json);
  SearchReport report;
  Model model = Model::load(command.model);
  model = naming<GraphError>(command.model, [&] {
    return prepared(Model(without_quantizers(model.graph()), model.parameters()),
                    command.float_parts, report);
  });
  const data::Split data = load_data(command.data, needs_of(command.model, model.graph()));
  model = with_loss(std::move(model), data.train);
  BitSearchOptions options{.budget = command.budget,
                           .activation_bits = command.activation_bits,
                           .samples = command.samples,
                           .float_parts = command.float_parts,
                           .threads = command.threads,
                           .on_trial = [](int64_t done, int64_t all) {
                             console::redraw(fmt::format("{} of {} trials", done, all));
                           }};
  options.scales = from_string<RecipeScales>(command.scales);
  options.weight_codes = from_string<CodeRange>(command.weight_codes);
  const BitSearch found = search_bits(model, data.train, options);
  console::clear_line();
  add(report, found, options);
  print(report);
  if (!command.output.empty()) {
    const Model chosen =
        quantized(model, found.recipe, data.train, command.samples, command.threads);
    files.save(command.output, [&](const std::string& path) { chosen.save(path); });
  }
  write_report(files, command.json, report);
  files.require_written();
}

}  // namespace qtape::tool
