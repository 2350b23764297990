// Differences of answers with quantizers from those without.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "qtape/engine/graph.h"
#include "qtape/model/relative_error.h"

namespace qtape {

/// The column of answers that differs most from that in floats.
struct AnswerError {
  std::string label;   ///< of the answer
  int64_t column = 0;  ///< along the last axis; -1 for all elements together
  double error = 0;  ///< root of the mean squared difference, in standard deviations in floats
  bool operator==(const AnswerError&) const = default;
};

/// Sums of the differences of an answer, by column.
class AnswerErrors {
 public:
  /// Answers with more columns, such as flattened images, have one error.
  static constexpr int64_t max_columns = 64;

  /// `columns`: the extent of the last axis. Columns that vary by `least_deviation` or less do
  /// not count.
  AnswerErrors(std::string label, int64_t columns, double least_deviation = 0);
  /// Adds elements in floats and those with quantizers, whole rows of columns. Pairs with a NaN
  /// or infinite element are left out.
  void add(std::span<const float> floats, std::span<const float> quantized);
  /// Forgets all elements.
  void clear();
  /// Returns the column with the largest error; nullopt if no column varies.
  std::optional<AnswerError> worst() const;

 private:
  std::string label_;
  double least_deviation_;
  std::vector<RelativeError> columns_;
};

/// Comparison of the answers of two runs over the same samples.
class AnswerComparison {
 public:
  /// Compares the answers of a graph except classes (`indexed_classes`). Of probabilities after
  /// a Sigmoid, columns that vary by less than 1/256 are left out, such as rare labels.
  /// Samples beyond `max_elements` of all answers together are not compared.
  explicit AnswerComparison(const Graph& graph, int64_t max_elements = int64_t{1} << 24);
  /// Keeps answers in floats to samples in order, one span for each answer of the graph.
  void keep(std::span<const std::span<const float>> answers);
  /// Compares answers with quantizers to the same samples in order. `restart` begins with the
  /// first sample again.
  void compare(std::span<const std::span<const float>> answers);
  void restart();
  /// Returns the column with the largest error of all answers; nullopt if none varies.
  std::optional<AnswerError> worst() const;

 private:
  struct Each {
    bool compared;
    int64_t columns;
    AnswerErrors errors;
    std::vector<float> floats = {};
    size_t next = 0;  // of `floats`
  };

  int64_t max_elements_;
  std::vector<Each> answers_;
};

}  // namespace qtape
