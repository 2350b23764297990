// Differences of answers with quantizers from those without.
#pragma once

#include <cstdint>
#include <limits>
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
  int64_t column = 0;  ///< along `axis`; -1 for all elements together
  double error = 0;  ///< root of the mean squared difference, in standard deviations in floats
  int axis = -1;     ///< -1 or 1
  bool operator==(const AnswerError&) const = default;
};

/// The answer of classes (`indexed_classes`) that differs most from that in floats.
struct ChangedClasses {
  std::string label;  ///< of the answer
  double share = 0;   ///< part of the classes that differ, 0 to 1
};

/// Columns of an answer: element i of it is of column i / stride % extent.
struct AnswerColumns {
  int64_t extent = 1;
  int64_t stride = 1;
  int axis = -1;  ///< as of AnswerError
};

/// Sums of the differences of an answer, by column.
class AnswerErrors {
 public:
  /// Answers with more columns, such as flattened images, have one error.
  static constexpr int64_t max_columns = 128;

  /// Columns that vary by `least_deviation` or less do not count.
  AnswerErrors(std::string label, const AnswerColumns& columns, double least_deviation = 0);
  /// Leaves out, from now on, values that only few samples of a column reach, one of 200, if
  /// without them it varies by less than a fifth: they would hide the error of all others.
  /// `floats` are all elements, `sample` of each sample.
  void leave_out_far(std::span<const float> floats, int64_t sample);
  /// Adds elements in floats and those with quantizers, whole samples. Pairs with a NaN or
  /// infinite element are left out.
  void add(std::span<const float> floats, std::span<const float> quantized);
  /// Forgets all elements.
  void clear();
  /// Returns the column with the largest error; nullopt if no column varies.
  std::optional<AnswerError> worst() const;

 private:
  struct Column {
    RelativeError sums = {};
    float least = -std::numeric_limits<float>::infinity();
    float most = std::numeric_limits<float>::infinity();
  };
  size_t column_of(size_t element) const;

  std::string label_;
  double least_deviation_;
  AnswerColumns places_;
  std::vector<Column> columns_;
};

/// Comparison of the answers of two runs over the same samples.
class AnswerComparison {
 public:
  /// Compares the answers of a graph by columns of their last axis and, with three axes,
  /// of axis 1. Of probabilities after a Sigmoid, columns that vary by less than 1/256
  /// are left out, such as rare labels. Samples beyond `max_elements` of all answers together
  /// are not compared.
  explicit AnswerComparison(const Graph& graph, int64_t max_elements = int64_t{1} << 24);
  /// Keeps answers in floats to samples in order, one span for each answer of the graph.
  void keep(std::span<const std::span<const float>> answers);
  /// Compares answers with quantizers to the same samples in order.
  void compare(std::span<const std::span<const float>> answers);
  /// Begins with the first sample again. Called before the first comparison, too.
  void restart();
  /// Returns the column with the largest error of all answers; nullopt if none varies.
  std::optional<AnswerError> worst() const;
  /// Returns the answer with the largest part of changed classes; nullopt without such answers.
  std::optional<ChangedClasses> changed() const;

 private:
  struct Each {
    std::string label;
    bool classes;                           // indices of these
    int64_t sample;                         // number of elements
    std::vector<AnswerErrors> errors = {};  // by kind of columns
    std::vector<float> floats = {};
    size_t next = 0;     // of `floats`
    size_t changed = 0;  // number of classes
  };

  int64_t max_elements_;
  std::vector<Each> answers_;
  bool is_complete_ = false;  // all floats are kept
};

}  // namespace qtape
