// Evaluation: how well a model answers a data set, and the exact bits of what it answered.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "qtape/core/sha256.h"
#include "qtape/data/dataset.h"
#include "qtape/engine/tape.h"
#include "qtape/integer/integer_program.h"

namespace qtape {

struct Evaluation {
  int64_t samples = 0;
  /// Percent of the samples whose largest answer is their label, or whose one answer is above 0
  /// for label 1; empty where the data have no labels or the answers are not [batch, classes].
  std::optional<double> accuracy = {};
  std::string outputs_sha256 = {};  ///< of all answers in their dtype, sample after sample
  bool operator==(const Evaluation&) const = default;
};

/// The class that answers mean: that of the largest; of one answer alone, 1 above 0.
int64_t predicted(std::span<const float> scores);

/// Counts what answers are worth.
class Judge {
 public:
  /// `answers` is the type of what one batch is answered with. Throws ArgumentError for data of
  /// more classes than there are answers.
  Judge(const data::Dataset& dataset, const TensorType& answers);

  /// Adds the answers to samples `first` to `first + count`: as scores, f32, where `labelled`,
  /// and as `bytes` to hash.
  void add(int64_t first, int64_t count, std::span<const float> scores,
           std::span<const std::byte> bytes);
  bool labelled() const { return labels_.has_value(); }
  Evaluation result();

 private:
  const data::Dataset& dataset_;
  std::optional<size_t> labels_;  // their column
  int64_t classes_ = 0;
  int64_t right_ = 0;
  int64_t samples_ = 0;
  Sha256 hash_;
};

/// Runs the first output of a graph, f32 [batch, ...], over data sets. Allocates once.
class Evaluator {
 public:
  /// Samples per step: results do not depend on how many the caller trains with.
  static constexpr int64_t batch = 250;

  /// Throws GraphError when the graph has no such output.
  Evaluator(const Graph& graph, Parameters& parameters, int threads,
            Arithmetic arithmetic = {});
  /// Throws ArgumentError when the data do not fit the inputs.
  Evaluation run(const data::Dataset& dataset, Mode mode = mode::eval);
  /// What it runs: quantizers can be switched off here.
  Tape& tape() { return tape_; }

 private:
  Tape tape_;
  NodeId output_;
};

/// The same of an integer program, whose first output may be of integers: a Dequantize makes
/// scores of these. Throws GraphError when it has no output [batch, ...].
Evaluation evaluate(const IntegerProgram& program, const data::Dataset& dataset,
                    int threads = default_threads());

}  // namespace qtape
