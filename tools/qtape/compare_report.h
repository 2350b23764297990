// Report of `qtape compare`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "qtape/core/fields.h"
#include "qtape/deploy/compare.h"

namespace qtape::tool {

struct ComparedNodeReport {
  std::string label;
  std::string label_b;
  std::string op;
  bool comparable = true;
  int64_t shift = 0;
  int64_t compared = 0;
  int64_t differ = 0;
  double largest = 0;
  std::optional<ElementDifference> first = {};
  bool inputs_agree = true;
  std::vector<NumberDifference> numbers = {};

  static constexpr auto fields() {
    using R = ComparedNodeReport;
    return std::tuple{
        field("label", &R::label, "of the node in A"),
        field("label_b", &R::label_b, "of the node in B"),
        field("op", &R::op, "name of the op in A"),
        field("comparable", &R::comparable, "false for other shapes, or floats and integers"),
        field("shift", &R::shift, "codes of B minus those of A for the same values"),
        field("compared", &R::compared, "codes, accumulators, indices or floats"),
        field("differ", &R::differ, "number of these that differ"),
        field("largest", &R::largest, "largest difference"),
        field("first", &R::first, "first that differs; null if none does"),
        field("inputs_agree", &R::inputs_agree, "true if no node before it differs"),
        field("numbers", &R::numbers, "numbers of the nodes that differ")};
  }
};

/// The node where a difference begins.
struct FirstDifferenceReport {
  std::string label;
  std::string reason;

  static constexpr auto fields() {
    using R = FirstDifferenceReport;
    return std::tuple{field("label", &R::label, "of the node in A"),
                      field("reason", &R::reason, "one sentence")};
  }
};

struct CompareReport {
  Requantization requantization_a = Requantization::FloatMultiply;
  Requantization requantization_b = Requantization::FloatMultiply;
  int64_t samples = 0;
  int64_t random_inputs = 0;
  int64_t differ = 0;
  std::vector<ComparedNodeReport> nodes = {};
  std::vector<std::string> only_in_a = {};
  std::vector<std::string> only_in_b = {};
  std::optional<FirstDifferenceReport> first_difference = {};

  static constexpr auto fields() {
    using R = CompareReport;
    return std::tuple{
        field("requantization_a", &R::requantization_a, "of the first file"),
        field("requantization_b", &R::requantization_b, "of the second file"),
        field("samples", &R::samples, "of the data"),
        field("random_inputs", &R::random_inputs, "in addition to the data"),
        field("differ", &R::differ, "elements that differ, and nodes that cannot be compared"),
        field("nodes", &R::nodes, "pairs of nodes, in the order of A"),
        field("only_in_a", &R::only_in_a, "nodes of A without a counterpart"),
        field("only_in_b", &R::only_in_b, "nodes of B without a counterpart"),
        field("first_difference", &R::first_difference,
              "first node that differs although its inputs agree; null if there is none")};
  }
};

CompareReport comparison_report(const ProgramComparison& comparison);
/// Prints the nodes in order, then those without a counterpart and the first difference.
void print(const CompareReport& report);

}  // namespace qtape::tool
