// Comparison of two integer programs: the same inputs, all nodes side by side.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "qtape/core/fields.h"
#include "qtape/core/thread_count.h"
#include "qtape/integer/program/integer_program.h"
#include "qtape/integer/program/session.h"

namespace qtape {

/// A node of each of two programs.
struct NodePair {
  ProgramNodeId a;
  ProgramNodeId b;
};

/// A number or attribute that differs between two nodes.
struct NumberDifference {
  std::string what;        ///< `multiplier`, `zero point`, `weights`
  std::string a;           ///< of the first program
  std::string b;           ///< of the second program
  std::string where = {};  ///< place of the first of several: `in 2 of 8 channels (3, 5)`
  std::string cause = {};  ///< the differing numbers from which it follows, if any

  static constexpr auto fields() {
    using D = NumberDifference;
    return std::tuple{field("what", &D::what, "the number"),
                      field("a", &D::a, "of the first program"),
                      field("b", &D::b, "of the second program"),
                      field("where", &D::where, "place of the first of several"),
                      field("cause", &D::cause, "numbers from which it follows")};
  }
  bool operator==(const NumberDifference&) const = default;
};
/// Returns `multiplier 15 >> 4 against 17 >> 4 in channel 3 of 8: s_x 0.5 against 0.6`.
std::string to_string(const NumberDifference& difference);

/// The first element in which two nodes differ.
struct ElementDifference {
  int64_t sample = 0;  ///< from 0, over all runs; of constants 0
  int64_t index = 0;   ///< within the sample
  double a = 0;        ///< code, accumulator, index or f32
  double b = 0;

  static constexpr auto fields() {
    using D = ElementDifference;
    return std::tuple{field("sample", &D::sample, "from 0, over all runs"),
                      field("index", &D::index, "within the sample"),
                      field("a", &D::a, "element of the first program"),
                      field("b", &D::b, "element of the second program")};
  }
};

/// A node of each program, and their differences.
struct NodeComparison : NodePair {
  /// False if elements cannot be compared: other shapes, or floats against integers.
  bool comparable = true;
  /// Codes of b minus those of a that stand for the same values: 128 for u8 against s8 codes
  /// of the same scale and limits. Such codes count as equal. 0 for other grids.
  int64_t shift = 0;
  int64_t compared = 0;  ///< number of elements
  int64_t differ = 0;    ///< number of elements that differ; of floats, in any bit
  double largest = 0;    ///< largest difference of two elements
  std::optional<ElementDifference> first = {};
  /// True if all nodes on which the two depend agree.
  bool inputs_agree = true;
  std::vector<NumberDifference> numbers = {};

  bool agrees() const { return comparable && differ == 0; }
};

/// Options of a comparison.
struct CompareOptions {
  int64_t batch = 1;  ///< samples per run, at least 1
  int threads = default_threads();
  std::string name_a = "the first program";   ///< for messages
  std::string name_b = "the second program";  ///< for messages
};

/// Runs two programs on the same samples and compares the values of their nodes.
///
/// Outputs and inputs are paired by label if both programs have the same labels there,
/// otherwise by position; then nodes with the same label; and of the remaining nodes, those
/// with the same op and shape, by position. If an output is float in one program and codes in
/// the other, the codes before the last Dequantize take its place.
class ProgramComparison {
 public:
  /// Throws ArgumentError, naming both programs, for inputs or outputs that differ in number,
  /// dtype or shape and for options out of range, and GraphError for a batch that a program
  /// does not have.
  ProgramComparison(const IntegerProgram& a, const IntegerProgram& b,
                    const CompareOptions& options);

  /// Returns the session of the first program, whose inputs the caller fills before a run.
  IntegerSession& session() { return a_; }
  /// Returns the inputs, in the order of the first program.
  std::span<const NodePair> inputs() const { return inputs_; }
  /// Runs the samples in both programs and compares the first `rows`. Throws GraphError for
  /// NaN and for indices out of range.
  void run(int64_t rows);

  const IntegerProgram& program_a() const& { return a_.program(); }
  IntegerProgram program_a() && { return a_.program(); }
  const IntegerProgram& program_b() const& { return b_.program(); }
  IntegerProgram program_b() && { return b_.program(); }
  /// Returns all pairs other than those of inputs, in the order of the first program.
  std::span<const NodeComparison> nodes() const& { return nodes_; }
  std::vector<NodeComparison> nodes() && { return std::move(nodes_); }
  /// Return the nodes without a counterpart.
  std::vector<ProgramNodeId> only_in_a() const { return only_a_; }
  std::vector<ProgramNodeId> only_in_b() const { return only_b_; }
  /// Returns the number of elements that differ, and that of pairs that cannot be compared.
  int64_t differences() const;
  /// Returns the first node that differs although all nodes that it depends on agree; null if
  /// there is none.
  const NodeComparison* first_difference() const;
  /// Returns the reason for such a difference in one sentence, without its node.
  std::string reason(const NodeComparison& node) const;

 private:
  void compare(NodeComparison& node, int64_t rows) const;
  void judge();
  std::vector<bool> influenced(const IntegerProgram& program, bool first) const;

  CompareOptions options_;
  IntegerSession a_;
  IntegerSession b_;
  std::vector<NodePair> inputs_;
  std::vector<NodeComparison> nodes_;
  std::vector<ProgramNodeId> only_a_;
  std::vector<ProgramNodeId> only_b_;
  int64_t samples_ = 0;
};

}  // namespace qtape
