// Differences of answers with quantizers from those without.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
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
  std::string label;   ///< of the answer
  double share = 0;    ///< share of classes that differ, 0 to 1
  int64_t number = 0;  ///< of these
};

/// Columns of an answer: element i belongs to column i / stride % extent.
struct AnswerColumns {
  int64_t extent = 1;
  int64_t stride = 1;
  int axis = -1;  ///< as in AnswerError
};

/// Sums of the differences of an answer, by column.
class AnswerErrors {
 public:
  /// Answers with more columns, such as flattened images, have one error.
  static constexpr int64_t max_columns = 128;

  /// Columns that vary by `least_deviation` or less do not count.
  AnswerErrors(std::string label, const AnswerColumns& columns, double least_deviation = 0);
  /// Adds elements in floats and those with quantizers, whole samples. Pairs with a NaN or
  /// infinite element are left out.
  void add(std::span<const float> floats, std::span<const float> quantized);
  /// Forgets all elements.
  void clear();
  /// Returns the column with the largest error; nullopt if no column varies.
  std::optional<AnswerError> worst() const;

 private:
  std::string label_;
  double least_deviation_;
  AnswerColumns places_;
  std::vector<RelativeError> columns_;
};

/// Comparison of the answers of two runs over the same samples.
class AnswerComparison {
 public:
  /// Compares the answers of a graph by columns of their last axis and, with three axes,
  /// of axis 1. Of probabilities after a Sigmoid, columns that vary by less than 1/256
  /// are left out, such as rare labels. Samples beyond `max_elements` of all answers together
  /// are not compared.
  explicit AnswerComparison(const Graph& graph, int64_t max_elements = int64_t{1} << 24);
  /// Omits these samples, in increasing order, such as those with inputs far from all others:
  /// their answers would hide the errors of the other samples.
  void leave_out(std::vector<int64_t> samples) { left_out_ = std::move(samples); }
  /// Keeps answers in floats to samples in order, one span for each answer of the graph.
  void keep(std::span<const std::span<const float>> answers);
  /// Compares answers with quantizers to the same samples in order.
  void compare(std::span<const std::span<const float>> answers);
  /// Starts again at the first sample.
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
    size_t next = 0;      // of `floats`
    size_t compared = 0;  // number of classes
    size_t changed = 0;
  };

  int64_t max_elements_;
  std::vector<Each> answers_;
  std::vector<int64_t> left_out_;
};

}  // namespace qtape
