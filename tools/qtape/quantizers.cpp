#include "qtape/engine/quantizers.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "qtape/calibrate/report.h"
#include "qtape/calibrate/sensitivity.h"
#include "qtape/core/printable.h"
#include "qtape/data/non_finite.h"
#include "qtape/engine/serialize.h"
#include "qtape/io/json_document.h"
#include "qtape/model/evaluate.h"
#include "qtape/model/feed.h"
#include "qtape/model/quantization.h"
#include "qtape/programs/console/terminal.h"
#include "qtape/programs/output_files.h"
#include "qtape/tools/qtape/commands.h"
#include "qtape/tools/qtape/data.h"
#include "qtape/tools/qtape/json_report.h"
#include "qtape/tools/qtape/load_file.h"
#include "qtape/tools/qtape/options.h"

namespace qtape::tool {

struct QuantizersOptions {
  std::string model;
  DataOptions data;
  std::string json = {};
  int64_t images = 1000;  ///< number of test images for the report
  bool no_sensitivity = false;
  int threads = default_threads();

  static constexpr auto fields() {
    using O = QuantizersOptions;
    return std::tuple{
        setting("images", &O::images, "number of test samples for the report", {1, 1000000}),
        setting("no_sensitivity", &O::no_sensitivity, "do not score quantizers individually")};
  }
};

namespace {

void show_scored(int64_t done, int64_t all) {
  console::redraw(done == all ? "" : fmt::format("sensitivity: {} of {} runs", done, all));
}

void print_sensitivity(const Sensitivity& s, const Metric& metric) {
  fmt::print("\n{}: all on {}, all off {}; {} is better\n{:<28} {:>10} {:>11}\n", metric.name,
             metric.text(s.all_on), metric.text(s.all_off),
             metric.higher_is_better ? "higher" : "lower", "quantizer", "only it on",
             "only it off");
  for (const NodeSensitivity& node : s.nodes) {
    fmt::print("{:<28} {:>10} {:>11}\n", printable(node.label), metric.text(node.only_on),
               metric.text(node.only_off));
  }
}

Json to_json_value(const Sensitivity& s, const Metric& metric) {
  Json nodes = Json::array();
  for (const NodeSensitivity& node : s.nodes) {
    nodes.push_back(
        {{"label", node.label}, {"only_on", node.only_on}, {"only_off", node.only_off}});
  }
  return {{"metric", metric.name},
          {"higher_is_better", metric.higher_is_better},
          {"all_on", s.all_on},
          {"all_off", s.all_off},
          {"nodes", std::move(nodes)}};
}

/// Warns of values that quantizers do not count.
void warn_of_non_finite(const std::vector<QuantizerReport>& reports,
                        const data::Dataset& images) {
  int64_t count = 0;
  for (const QuantizerReport& each : reports) count += each.non_finite;
  if (count == 0) return;
  fmt::print("warning: quantizers read {} that {} not finite and not counted{}\n",
             counted(count, "value"), count == 1 ? "is" : "are",
             data::first_non_finite(images));
}

}  // namespace

/// Reports the effect of each quantizer on the test images, and its cost alone.
void report_quantizers(const QuantizersOptions& options) {
  programs::OutputFiles files;
  files.reads({options.model});
  files.reads(options.data.paths());
  files.expect_text("--json", options.json);
  SavedModel model = read_model(options.model, files);
  require<GraphError>(!quantizers(model.graph).empty(),
                      "{}: the model has no quantizers: train it with them, or insert and "
                      "calibrate them",
                      options.model);
  data::Dataset images = load_data(options.data, needs_of(options.model, model.graph)).test;
  const int64_t count = std::min(images.size(), options.images);
  require<ArgumentError>(count >= 1, "there are no samples for the report");
  require_fit(model.graph, model.graph.answers(), images);
  Evaluator evaluator(model.graph, model.parameters, options.threads);
  const int64_t extent = calibration_batch(count);
  Tape tape(model.graph.with_batch(extent), model.parameters,
            {.outputs = model.graph.answers(), .threads = options.threads});
  const auto reports = qtape::report_quantizers(tape, batches_of(images, count));
  fmt::print("{} of {} test samples\n{}", count / extent * extent, images.size(),
             to_table(reports));
  warn_of_non_finite(reports, images);
  Json json = {{"samples", count / extent * extent},
               {"quantizers", parse_document(to_json(reports))}};
  const auto choice = choose_metric(model.graph, model.graph.answers()[0], images);
  if (!options.no_sensitivity && !choice) {
    fmt::print("\nno sensitivity: the data have neither labels nor targets for the model\n");
  }
  if (!options.no_sensitivity && choice) {
    const Metric metric = metric_of(choice->kind);
    const Sensitivity result = sensitivity(
        evaluator.tape(), [&](Tape&) { return evaluator.run(images).score->value; },
        show_scored);
    print_sensitivity(result, metric);
    json["sensitivity"] = to_json_value(result, metric);
  }
  write_json_text(files, options.json, json);
  files.require_written();
}

Command add_quantizers(CLI::App& app) {
  const auto o = std::make_shared<QuantizersOptions>();
  CLI::App& quantizers =
      *app.add_subcommand("quantizers", "Report the effect and the cost of each quantizer");
  add_model(quantizers, o->model);
  add_data(quantizers, o->data, o->threads);
  add_json(quantizers, o->json);
  add_settings(quantizers, *o);
  return {&quantizers, [o] {
            report_quantizers(*o);
            return 0;
          }};
}

}  // namespace qtape::tool
