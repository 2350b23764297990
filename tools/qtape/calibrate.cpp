#include <fmt/format.h>

#include <algorithm>

#include "qtape/calibrate/calibration.h"
#include "qtape/console/terminal.h"
#include "qtape/core/printable.h"
#include "qtape/engine/quantizers.h"
#include "qtape/examples/shared/output_files.h"
#include "qtape/model/evaluate.h"
#include "qtape/model/feed.h"
#include "qtape/model/quantization.h"
#include "qtape/tools/qtape/commands.h"
#include "qtape/tools/qtape/data.h"

namespace qtape::tool {
namespace {

/// The model with quantizers: its own, or new ones whose states calibration fills.
Model with_some_quantizers(Model model, const CalibrateOptions& options) {
  if (!quantizers(model.graph()).empty()) return model;
  return with_quantizers(model,
                         calibrated_quantizers(options.weight_bits, options.activation_bits));
}

/// "97.10 %", or the bits of the answers where there are no labels.
std::string score(const Evaluation& result) {
  return result.accuracy ? fmt::format("{:.2f} %", *result.accuracy)
                         : "outputs sha256 " + result.outputs_sha256;
}

void show(const CalibrationProgress& progress) {
  console::redraw(fmt::format("{} of {}: {}, batch {}", progress.stage_index + 1,
                              progress.stages, printable(progress.stage), progress.batch));
}

std::vector<MethodChoice> weight_choices(const Graph& graph, const std::string& method) {
  std::vector<MethodChoice> choices;
  for (NodeId id : quantizers(graph)) {
    const Op& source = graph[graph[id].operands[0]].op;
    if (graph[id].operands.size() > 1 && is_persistent(source)) {
      choices.push_back({graph.name(id), observer_method(method)});
    }
  }
  return choices;
}

std::vector<NodeCalibration> run(Tape& tape, const BatchSource& batches,
                                 const CalibrateOptions& options, const std::string& observer) {
  const auto by_name = weight_choices(tape.graph(), options.weight_observer);
  if (observer != "search") {
    return calibrate(tape, batches, {observer_method(observer), by_name, show});
  }
  return search_calibration(tape, batches, methods_from_data(), show);
}

void print_nodes(const std::vector<NodeCalibration>& nodes) {
  for (const NodeCalibration& node : nodes) {
    const auto [low, high] = std::ranges::minmax(node.qparams, {}, &QParams<double>::scale);
    const std::string method =
        std::visit([](const auto& each) { return std::string(each.name); }, node.method);
    fmt::print("  {:<28} {:<14} scale {:.4g}", printable(node.label), method, low.scale);
    if (node.qparams.size() > 1) fmt::print(" to {:.4g}", high.scale);
    if (node.qparams.size() == 1) fmt::print(", zero point {}", low.zero_point);
    if (node.non_finite > 0) fmt::print(", {} NaN or infinite skipped", node.non_finite);
    fmt::print("\n");
  }
}

}  // namespace

void calibrate(const CalibrateOptions& options) {
  require<ArgumentError>(options.observer != "all" || options.save.empty(),
                         "--save needs one observer, got all");
  examples::OutputFiles files;
  files.expect("--save", options.save);
  Model loaded = Model::load(options.model);
  const auto sections = loaded.sections();
  Model model = with_some_quantizers(std::move(loaded), options);
  const data::Split data = load_data(options.data, features_of(model.graph()), options.images);
  const int64_t extent = std::min({Evaluator::batch, data.train.size(), options.images});
  require<ArgumentError>(extent >= 1, "there are no samples to calibrate with");
  Tape tape(model.graph().with_batch(extent), model.parameters(), {.threads = options.threads});
  Evaluator evaluator(model.graph(), model.parameters(), options.threads);
  const BatchSource batches = batches_of(data.train, options.images);
  fmt::print("{} test samples, without quantizers {}\n", data.test.size(),
             score(evaluator.run(data.test, mode::float_eval)));
  std::vector<std::string> observers = {options.observer};
  if (options.observer == "all") {
    observers.clear();
    for (const ObserverMethod& method : methods_from_data()) {
      observers.emplace_back(name_of(method));
    }
    observers.emplace_back("search");
  }
  for (const std::string& observer : observers) {
    const auto nodes = run(tape, batches, options, observer);
    console::clear_line();
    fmt::print("{:<14} {}\n", observer, score(evaluator.run(data.test)));
    if (observers.size() == 1) print_nodes(nodes);
  }
  files.save(options.save, [&](const std::string& path) {
    save_model(path, model.graph(), model.parameters(), sections);
  });
  files.require_written();
}

}  // namespace qtape::tool
