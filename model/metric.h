// Metrics: the scores of answers, their units and which of two is better; and the one place
// that chooses a metric by the model's loss and the targets of the data.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "qtape/core/enum_names.h"
#include "qtape/data/dataset.h"
#include "qtape/engine/graph.h"
#include "qtape/integer/integer_program.h"
#include "qtape/model/area_under_curve.h"

namespace qtape {

/// Metrics that qtape computes itself.
enum class MetricKind : uint8_t {
  Accuracy,           ///< percent of the samples whose label is answered
  MeanSquaredError,   ///< mean of (answer - target)^2 over all numbers of all samples
  MeanAbsoluteError,  ///< mean of |answer - target| over them
  AreaUnderCurve      ///< of two classes: see area_under_curve
};
template <>
inline constexpr auto enum_names<MetricKind> = std::array<std::string_view, 4>{
    "accuracy", "mean squared error", "mean absolute error", "AUC"};

/// A measure of a model: its name, its unit and its direction.
struct Metric {
  std::string name = {};  ///< "test accuracy"
  std::string unit = {};  ///< follows the number: " %"
  /// After the point; without it, four digits that count.
  std::optional<int> digits = 2;
  bool higher_is_better = true;
  std::function<double()> measure = {};  ///< called after every epoch of fit

  /// Whether score `a` is better than `b`. NaN is better than nothing.
  bool better(double a, double b) const { return higher_is_better ? a > b : a < b; }
  /// A score with its unit: "97.10 %".
  std::string text(double score) const;
};

/// The name, unit and direction of a metric, without `measure`.
Metric metric_of(MetricKind kind);

/// A metric and its value for some data.
struct MetricScore {
  MetricKind metric = MetricKind::Accuracy;
  double value = 0;
  bool operator==(const MetricScore&) const = default;
};
/// "accuracy 97.10 %", "mean squared error 0.01234".
std::string to_string(const MetricScore& score);

/// A metric and the column of a data set that it compares answers with.
struct MetricChoice {
  MetricKind kind = MetricKind::Accuracy;
  size_t column = 0;
};

/// The metric of a network's answers `answer`, [batch, ...], to `dataset`; nothing where the
/// data have nothing to compare with. In this order:
///
/// - the mean squared error from the input that the graph's loss compares `answer` with by
///   MeanSquaredError;
/// - the accuracy where the data have labels and answers are [batch, classes];
/// - the mean squared error from the target, where it has the shape of an answer;
/// - without a target, the mean squared error from the first input in the shape of an answer.
std::optional<MetricChoice> choose_metric(const Graph& graph, NodeId answer,
                                          const data::Dataset& dataset);
/// What `wanted` compares: for errors the input of the loss, the target or the input that has
/// the shape of an answer; labels else. Throws ArgumentError where the data have no such.
MetricChoice choose_metric(const Graph& graph, NodeId answer, const data::Dataset& dataset,
                           MetricKind wanted);
/// The same as the first of a program, which has no loss.
std::optional<MetricChoice> choose_metric(const IntegerProgram& program, NodeId output,
                                          const data::Dataset& dataset);

/// The class that answers mean: that of the largest; of one answer alone, 1 above 0.
int64_t predicted(std::span<const float> scores);

/// Scores answers by one metric, batch after batch; equal bits at any number of samples a
/// batch.
class Scorer {
 public:
  /// `width` is how many numbers an answer has. Throws ArgumentError for data of more classes
  /// than there are answers, and for an AUC of other than two classes.
  Scorer(const MetricChoice& choice, const data::Dataset& dataset, int64_t width);

  /// Adds the answers to samples `first` to `first + count`.
  void add(int64_t first, int64_t count, std::span<const float> answers);
  /// The score of all samples so far. An AUC is NaN where an answer is; it throws ArgumentError
  /// where a class has no sample.
  MetricScore score() const;

 private:
  void add_labelled(int64_t sample, std::span<const float> answer);

  MetricChoice choice_;
  data::Dataset dataset_;
  size_t width_ = 0;
  std::vector<float> target_;
  int64_t samples_ = 0;
  double sum_ = 0;  // of samples that are right, of squares or of magnitudes
  std::array<std::vector<double>, 2> scores_;  // by class, for an AUC
};

}  // namespace qtape
