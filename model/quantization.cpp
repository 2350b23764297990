#include "qtape/model/quantization.h"

#include <algorithm>
#include <set>

#include "qtape/core/printable.h"
#include "qtape/engine/quantizers.h"
#include "qtape/model/answer_errors.h"
#include "qtape/model/evaluate.h"
#include "qtape/model/feed.h"

namespace qtape {
namespace {

/// Returns the labels of the states in which quantizers hold their scales.
std::set<std::string, std::less<>> scale_labels(const Graph& graph) {
  std::set<std::string, std::less<>> labels;
  for (NodeId id : quantizers(graph)) {
    const auto& operands = graph[id].operands;
    for (size_t i = 1; i < operands.size(); ++i) {
      if (is_persistent(graph[operands[i]].op)) labels.insert(graph[operands[i]].label);
    }
  }
  return labels;
}

/// Returns the names of the quantizers all of whose states are in `from`.
std::vector<std::string> known_quantizers(const Graph& graph, const Parameters& from) {
  std::vector<std::string> known;
  for (NodeId id : quantizers(graph)) {
    const auto& operands = graph[id].operands;
    const bool all = std::all_of(operands.begin() + 1, operands.end(), [&](NodeId each) {
      return from.find(graph[each].label) != nullptr;
    });
    if (all && operands.size() > 1) known.push_back(graph.name(id));
  }
  return known;
}

Tape calibration_tape(Model& model, const data::Dataset& dataset, int64_t samples,
                      int threads) {
  const int64_t rows = calibration_batch(std::min(dataset.size(), samples));
  require<ArgumentError>(rows >= 1, "there are no samples to calibrate with");
  return {model.graph().with_batch(rows),
          model.parameters(),
          {.outputs = model.outputs(), .threads = threads}};
}

}  // namespace

int64_t calibration_batch(int64_t samples) {
  if (samples <= Evaluator::batch) return samples;
  int64_t best = Evaluator::batch;
  for (int64_t rows = best - 1; rows >= Evaluator::batch / 2; --rows) {
    if (samples % rows < samples % best) best = rows;
  }
  return best;
}

int64_t calibrated_samples(const data::Dataset& dataset, int64_t samples) {
  const int64_t given = std::min(dataset.size(), samples);
  const int64_t rows = calibration_batch(given);
  return rows < 1 ? 0 : given / rows * rows;
}

std::vector<NodeCalibration> calibrate(Model& model, const data::Dataset& dataset,
                                       const CalibrationOptions& options, int64_t samples,
                                       int threads) {
  Tape tape = calibration_tape(model, dataset, samples, threads);
  return calibrate(tape, batches_of(dataset, samples), options);
}

std::vector<NodeCalibration> search_calibration(Model& model, const data::Dataset& dataset,
                                                const std::vector<ObserverMethod>& candidates,
                                                int64_t samples, int threads) {
  Tape tape = calibration_tape(model, dataset, samples, threads);
  return search_calibration(tape, batches_of(dataset, samples), candidates);
}

Model with_quantizers(const Model& model, const InsertOptions& options) {
  return {insert_quantizers(model.graph(), options), model.parameters()};
}

std::optional<double> quantization_error(const Model& model, const data::Dataset& dataset,
                                         int threads) {
  Evaluator evaluator(model.graph(), model.parameters(), threads);
  AnswerComparison comparison(model.graph());
  evaluator.on_answers = [&](auto answers) { comparison.keep(answers); };
  (void)evaluator.run(dataset, mode::float_eval);
  comparison.restart();
  evaluator.on_answers = [&](auto answers) { comparison.compare(answers); };
  (void)evaluator.run(dataset);
  const std::optional<AnswerError> worst = comparison.worst();
  return worst ? std::optional(worst->error) : std::nullopt;
}

int64_t start_from(Model& model, const Parameters& from, const data::Dataset& dataset,
                   int64_t samples, int threads) {
  const auto scales = scale_labels(model.graph());
  bool calibrates = false;
  for (const ParameterEntry& each : model.parameters().entries()) {
    const ParameterEntry* found = from.find(each.name);
    require<GraphError>(found != nullptr || scales.contains(each.name),
                        "the saved model has no '{}', which the network needs as {}",
                        printable(each.name), each.type);
    if (found == nullptr) {
      calibrates = true;
    } else {
      detail::check_same_type(each, *found);
    }
  }
  const int64_t taken = model.take_over(from);
  if (!calibrates) return taken;
  (void)calibrate(model, dataset, {.keep = known_quantizers(model.graph(), from)}, samples,
                  threads);
  return model.take_over(from);
}

FakeQuantize quantizer_of_answers(const Graph& graph) {
  const bool wide = std::ranges::any_of(quantizers(graph), [&](NodeId id) {
    const CodeLimits limits = grid_of(graph, id).limits;
    return limits.q_max - limits.q_min > 255;
  });
  const auto made = std::get<FakeQuantize>(*calibrated_quantizers(8, wide ? 16 : 8).input);
  return wide ? with_signed_codes(made) : made;
}

Model with_quantized_answers(const Model& model, const data::Dataset& dataset, int64_t samples,
                             int threads) {
  Graph graph = quantize_answers(model.graph(), quantizer_of_answers(model.graph()));
  if (graph == model.graph()) return {std::move(graph), model.parameters()};
  Model result(std::move(graph), 0);
  (void)start_from(result, model.parameters(), dataset, samples, threads);
  return result;
}

}  // namespace qtape
