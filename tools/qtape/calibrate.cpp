#include <fmt/format.h>

#include <algorithm>

#include "qtape/calibrate/calibration.h"
#include "qtape/core/printable.h"
#include "qtape/engine/quantizers.h"
#include "qtape/engine/serialize.h"
#include "qtape/examples/data/evaluate.h"
#include "qtape/examples/shared/output_files.h"
#include "qtape/examples/shared/terminal.h"
#include "qtape/model/insert_quantizers.h"
#include "qtape/tools/qtape/commands.h"
#include "qtape/tools/qtape/data.h"

namespace qtape::tool {
namespace {

constexpr int64_t batch = 250;

/// The model with quantizers: its own, or new ones whose states calibration fills.
Model with_quantizers(Model model, const CalibrateOptions& options) {
  if (!quantizers(model.graph).empty()) return model;
  Graph graph = insert_quantizers(
      model.graph, calibrated_quantizers(options.weight_bits, options.activation_bits));
  Parameters parameters(graph, 0);
  for (const ParameterEntry& entry : model.parameters.entries()) {
    parameters.set(entry.name, model.parameters.get(entry.name));
  }
  return {std::move(graph), std::move(parameters), std::move(model.sections)};
}

void show(const CalibrationProgress& progress) {
  examples::redraw(fmt::format("{} of {}: {}, batch {}", progress.stage_index + 1,
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
  Model model = with_quantizers(load_model(options.model), options);
  const data::Split data = load_data(options.data, features_of(model.graph), options.images);
  const int64_t extent = std::min({batch, data.train.size(), options.images});
  require<ArgumentError>(extent >= 1, "there are no training images to calibrate with");
  Tape tape(model.graph.with_batch(extent), model.parameters, {.threads = options.threads});
  data::Evaluator evaluator(model.graph, model.parameters, options.threads);
  const BatchSource batches = data::batch_source(data.train, options.images);
  fmt::print("{} test images, without quantizers {:.2f} %\n", data.test.size(),
             evaluator.run(data.test, mode::float_eval).accuracy);
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
    examples::clear_line();
    fmt::print("{:<14} {:.2f} %\n", observer, evaluator.run(data.test).accuracy);
    if (observers.size() == 1) print_nodes(nodes);
  }
  files.save(options.save, [&](const std::string& path) {
    save_model(path, model.graph, model.parameters, model.sections);
  });
  files.require_written();
}

}  // namespace qtape::tool
