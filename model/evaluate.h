// Evaluation: the score of a model on a data set, and hashes of its exact answers.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "qtape/data/dataset.h"
#include "qtape/engine/tape.h"
#include "qtape/integer/program/integer_program.h"
#include "qtape/model/metric.h"

namespace qtape {

/// Hash and score of one answer of a model with several.
struct AnswerHash {
  std::string label;
  std::string sha256;  ///< like Evaluation::outputs_sha256, for this answer alone
  std::optional<MetricScore> score = {};  ///< by choose_metric; empty if there is none
  bool operator==(const AnswerHash&) const = default;
};

/// Result of an evaluation.
struct Evaluation {
  int64_t samples = 0;
  /// Score of the first answer, by the metric for the model and the data, see choose_metric;
  /// empty if there is none.
  std::optional<MetricScore> score = {};
  /// The score if it is an accuracy: percentage of samples whose largest element is at their
  /// label or, for one number per sample, whose number is on its label's side of the threshold.
  std::optional<double> accuracy = {};
  std::string outputs_sha256 = {};       ///< of all answers in their dtype, sample by sample
  std::vector<AnswerHash> outputs = {};  ///< one per answer if there are several; else empty
  int64_t non_finite = 0;                ///< number of samples with a NaN or infinite answer
  bool operator==(const Evaluation&) const = default;
};

namespace detail {
/// An answer that is scored.
struct Judged {
  std::string label;
  int64_t width = 0;  ///< values per sample
  std::optional<MetricChoice> metric;
};
}  // namespace detail

/// Runs the answers of a graph, f32 [batch, ...], on data sets.
class Evaluator {
 public:
  /// Samples per step, independent of the batch size in training.
  static constexpr int64_t batch = 250;

  /// Throws GraphError for a graph without answers and for answers of another type. The ranks
  /// of `exchange` share the batches; all of them must then call the same functions. `run`
  /// returns on each rank what it returns without `exchange`.
  Evaluator(const Graph& graph, const Parameters& parameters, int threads,
            Arithmetic arithmetic = {}, Exchange* exchange = nullptr);
  /// Throws ArgumentError on all ranks of the exchange if their data differ. The first call of
  /// `run` does the same; later ones compare only the number of samples.
  void compare(const data::Dataset& dataset);
  /// Throws ArgumentError like `run` for data that do not fit the model or the metric, without
  /// a pass over them.
  void check_data(const data::Dataset& dataset,
                  std::optional<MetricKind> wanted = std::nullopt) const;
  /// Evaluates `dataset` by the metric `wanted`, or by choose_metric if it is empty. Throws
  /// ArgumentError if the data do not fit the inputs or the metric, and with an exchange for
  /// modes that train, in which dropout depends on the order of the batches.
  Evaluation run(const data::Dataset& dataset, Mode mode = mode::eval,
                 std::optional<MetricKind> wanted = std::nullopt);
  /// Called by `run` with each batch of samples in order, one span for each answer.
  std::function<void(std::span<const std::span<const float>>)> on_answers = {};
  /// Returns the tape, for example to switch off quantizers.
  Tape& tape() { return tape_; }

 private:
  int64_t width(NodeId answer) const;
  std::vector<detail::Judged> judged(const data::Dataset& dataset,
                                     std::optional<MetricKind> wanted) const;
  std::vector<std::span<const float>> answers_from(int rank, int64_t count);

  Tape tape_;
  std::vector<NodeId> answers_;
  Exchange* exchange_;
  std::vector<std::vector<float>> gathered_;  // by answer: a batch, if there is an exchange
  std::vector<int64_t> bytes_;                // by rank, of an answer
  bool compared_ = false;
};

/// Evaluates an integer program. Outputs may be integers, which are dequantized for the score.
/// Throws GraphError if an output is not [batch, ...].
Evaluation evaluate(const IntegerProgram& program, const data::Dataset& dataset,
                    int threads = default_threads());

}  // namespace qtape
