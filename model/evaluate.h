// Evaluation: how well a model answers a data set, and the exact bits of what it answered.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "qtape/core/sha256.h"
#include "qtape/data/dataset.h"
#include "qtape/engine/tape.h"
#include "qtape/integer/integer_program.h"
#include "qtape/model/metric.h"

namespace qtape {

/// One answer of a model with several.
struct AnswerHash {
  std::string label;
  std::string sha256;  ///< as Evaluation::outputs_sha256, of this answer alone
  bool operator==(const AnswerHash&) const = default;
};

/// What came of a data set.
struct Evaluation {
  int64_t samples = 0;
  /// Of the first answer, by the metric of the model and the data, see choose_metric; empty
  /// where there is none.
  std::optional<MetricScore> score = {};
  /// The score where it is an accuracy: percent of the samples whose largest answer is their
  /// label, or whose one answer is above 0 for label 1.
  std::optional<double> accuracy = {};
  std::string outputs_sha256 = {};       ///< of all answers in their dtype, sample after sample
  std::vector<AnswerHash> outputs = {};  ///< each of several answers; empty for one
  bool operator==(const Evaluation&) const = default;
};

/// Scores and hashes answers.
class Judge {
 public:
  /// `labels` are those of the answers, of which the first, of `width` numbers, is scored.
  /// Throws ArgumentError as Scorer does.
  Judge(const data::Dataset& dataset, const std::optional<MetricChoice>& metric, int64_t width,
        const std::vector<std::string>& labels);

  /// Adds the answers to samples `first` to `first + count`: numbers of the first one, and the
  /// bytes of each.
  void add(int64_t first, int64_t count, std::span<const float> scores,
           std::span<const std::span<const std::byte>> answers);
  Evaluation result();

 private:
  struct Hash {
    std::string label;
    Sha256 sha256;
  };

  std::optional<Scorer> scorer_;
  int64_t samples_ = 0;
  Sha256 hash_;
  std::vector<Hash> hashes_;  // of several answers
};

/// Runs the answers of a graph, f32 [batch, ...], over data sets. Allocates once.
class Evaluator {
 public:
  /// Samples per step: results do not depend on how many the caller trains with.
  static constexpr int64_t batch = 250;

  /// Throws GraphError for a graph without answers and for one of another kind.
  Evaluator(const Graph& graph, Parameters& parameters, int threads,
            Arithmetic arithmetic = {});
  /// Scored by `wanted`, else by choose_metric. Throws ArgumentError when the data do not fit
  /// the inputs or the metric.
  Evaluation run(const data::Dataset& dataset, Mode mode = mode::eval,
                 std::optional<MetricKind> wanted = std::nullopt);
  /// What it runs: quantizers can be switched off here.
  Tape& tape() { return tape_; }

 private:
  std::span<const float> rows(NodeId answer, int64_t count) const;

  Tape tape_;
  std::vector<NodeId> answers_;
};

/// The same of an integer program, whose outputs may be of integers: a Dequantize makes scores
/// of these. Throws GraphError when it has an output other than [batch, ...].
Evaluation evaluate(const IntegerProgram& program, const data::Dataset& dataset,
                    int threads = default_threads());

/// The name of an output of a program: its label, that of the node whose integers it gives in
/// floats, or `%7` where there is none.
std::string output_name(const IntegerProgram& program, NodeId output);

}  // namespace qtape
