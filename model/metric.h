// Metrics: scores of answers with their units and directions, and the choice of a metric by the
// model's loss and the targets of the data.
#pragma once

#include <algorithm>
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
#include "qtape/integer/program/integer_program.h"

namespace qtape {

/// Built-in metrics.
enum class MetricKind : uint8_t {
  Accuracy,           ///< percentage of samples, or positions, whose label is predicted
  MeanSquaredError,   ///< mean of (answer - target)^2 over all elements of all samples
  MeanAbsoluteError,  ///< mean of |answer - target| over all elements of all samples
  AreaUnderCurve      ///< for two classes, see area_under_curve
};
template <>
inline constexpr auto enum_names<MetricKind> = std::array<std::string_view, 4>{
    "accuracy", "mean squared error", "mean absolute error", "AUC"};

/// A measure of a model: name, unit and direction.
struct Metric {
  std::string name = {};  ///< "test accuracy"
  std::string unit = {};  ///< appended to the number: " %"
  /// Digits after the point; if empty, four significant digits.
  std::optional<int> digits = 2;
  bool higher_is_better = true;
  std::function<double()> measure = {};  ///< called after every epoch of fit

  /// True if score `a` is better than `b`. NaN is not better than any score.
  bool better(double a, double b) const { return higher_is_better ? a > b : a < b; }
  /// Returns a score with its unit: "97.10 %".
  std::string text(double score) const;
};

/// Returns name, unit and direction of a metric, without `measure`.
Metric metric_of(MetricKind kind);

/// A metric and its value on some data.
struct MetricScore {
  MetricKind metric = MetricKind::Accuracy;
  double value = 0;
  bool operator==(const MetricScore&) const = default;
};
/// Returns "accuracy 97.10 %", "mean squared error 0.01234".
std::string to_string(const MetricScore& score);

/// A metric, and the column of a data set with which it compares answers.
struct MetricChoice {
  MetricKind kind = MetricKind::Accuracy;
  size_t column = 0;
  /// Threshold for answers of one number: those above it are class 1. 0 for logits; 0.5 for
  /// probabilities, which are results of a Sigmoid or, in a program, of a table of values
  /// within 0..1.01.
  float threshold = 0;
  /// Number of classes of answers that are indices of classes, as those of an ArgMax; 0:
  /// answers are scores of classes.
  int64_t indexed = 0;

  /// Returns the number of classes of answers with `scores` numbers for each label.
  int64_t classes(int64_t scores) const {
    return indexed > 0 ? indexed : std::max<int64_t>(2, scores);
  }
};

/// Returns the metric for a network's answers `answer`, [batch, ...], on `dataset`; empty if
/// the data have nothing to compare with. Targets are those of `targets_of` that no loss
/// compares with another answer; the first one that fits is taken. Candidates in this order:
///
/// - the mean squared error relative to the input with which a loss of the graph compares
///   `answer` (`comparisons`), or the accuracy by the labels of its SoftmaxCrossEntropy;
/// - the accuracy, if a target holds classes of the answer (`holds_classes`), or if it holds
///   integers and the answer consists of as many class indices (`indexed_classes`);
/// - the mean squared error relative to a target with the shape of an answer;
/// - for the first answer of data without targets, the mean squared error relative to the
///   first input with the shape of an answer.
std::optional<MetricChoice> choose_metric(const Graph& graph, NodeId answer,
                                          const data::Dataset& dataset);
/// Returns the column with which `wanted` compares: for errors the input of the loss, the
/// target, or the input with the shape of an answer; otherwise the labels. Throws ArgumentError
/// if the data have no such column.
MetricChoice choose_metric(const Graph& graph, NodeId answer, const data::Dataset& dataset,
                           MetricKind wanted);
/// Returns the metric for an output of a program, which has no loss, by the rules above.
std::optional<MetricChoice> choose_metric(const IntegerProgram& program, ProgramNodeId output,
                                          const data::Dataset& dataset);

/// Returns the predicted class: the index of the largest score; for a single score, 1 if it is
/// above the threshold; -1 if a score is NaN.
int64_t predicted(std::span<const float> scores, float threshold = 0);
/// Returns the predicted class: that of the largest score, or the class index that the answer
/// holds. -1 for NaN.
int64_t predicted(std::span<const float> answer, const MetricChoice& choice);

/// Returns the number of labels of a sample: 1, or the number of positions that have a class.
int64_t places_of(const MetricChoice& choice, const data::Dataset& dataset);

/// Computes the score of answers by one metric, batch by batch. The result has the same bits
/// for any batch size.
class Scorer {
 public:
  /// `width` is the number of elements of an answer. Throws ArgumentError for a width other
  /// than that of the target, for data with more classes than an answer has elements, and for
  /// an AUC unless there are two classes.
  Scorer(const MetricChoice& choice, const data::Dataset& dataset, int64_t width);

  /// Adds the answers to samples `first` to `first + count`, `width` numbers each. Throws
  /// ArgumentError for another number of them, and for a label that is not a class.
  void add(int64_t first, int64_t count, std::span<const float> answers);
  /// Returns the score of all samples so far. An AUC is NaN if an answer is NaN; it throws
  /// ArgumentError if a class has no samples.
  MetricScore score() const;

 private:
  void add_labelled(int64_t sample, std::span<const float> answer);
  void require_class(int64_t sample, int32_t label, int64_t classes) const;

  MetricChoice choice_;
  data::Dataset dataset_;
  size_t width_ = 0;
  std::vector<float> target_;
  std::vector<int32_t> labels_;  // of a sample, one for each position
  int64_t samples_ = 0;
  double sum_ = 0;  // of correct samples, of squares or of magnitudes
  std::array<std::vector<double>, 2> scores_;  // by class, for an AUC
};

}  // namespace qtape
