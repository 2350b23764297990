// Lowering: the integer op that computes the integers of each node of a graph, and the nodes
// that give its numbers. Conversion fills the numbers in once, tapes on integers in each step.
#pragma once

#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "qtape/core/grid.h"
#include "qtape/integer/rules/analysis.h"

namespace qtape {

/// Constant factors of a product, and the bias added to its sums.
struct LoweredWeights {
  NodeId quantizer;     ///< the quantizer whose codes are the factors
  NodeId bias;          ///< the bias before rounding; index -1 if there is none
  WeightLayout layout;  ///< of the factors in their operand
};

/// Leaves from which the numbers of a norm are made.
struct LoweredNorm {
  integer::NormNumbers numbers;  ///< without gamma and beta
  std::vector<NodeId> leaves;    ///< gamma, then beta, as far as the norm has them
};

/// An integer op without its numbers.
struct LoweredOp {
  enum class Emitter : uint8_t {
    None,        ///< the node has no integers of its own
    Input,       ///< indices that the caller gives
    Quantize,    ///< codes of floats
    Requantize,  ///< codes of the integers of operand 0
    Table,       ///< a function of one code, as a lookup table
    ByRule       ///< as the rule of `node` emits it
  };
  Emitter emitter = Emitter::None;
  NodeId node;       ///< the node that the op computes, before views and limits
  NodeId quantizer;  ///< provides the grid of the result; index -1 for accumulators
  Grid grid = {};    ///< of `quantizer`
  /// Limits of the value, applied with the rounding to the grid.
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  std::vector<NodeId> operands = {};  ///< nodes whose integers are read, in their shapes
  /// By operand: the op that brings its integers to the grid of the result first. Empty if
  /// operands are read as they are.
  std::vector<LoweredOp> pieces = {};
  std::optional<LoweredWeights> weights = {};
  std::optional<LoweredNorm> norm = {};
  int64_t indices = 0;   ///< of an input of indices: the number of rows that they can name
  Numbers numbers = {};  ///< shapes, and the dtype of the codes of the result

  bool has_grid() const { return quantizer.index >= 0; }
  /// Returns the grid of the result for a scale and zero point, with its codes restricted to
  /// the limits.
  CodeGrid code_grid(const QParams<float>& q) const;
};

/// The integer form of a graph.
struct Lowered {
  IntegerAnalysis analysis;
  std::vector<LoweredOp> ops;  ///< by node: for sources of codes, accumulators and weights

  const IntegerForm& operator[](NodeId id) const { return analysis[id]; }
  const LoweredOp& op(NodeId source) const { return ops[at(source)]; }
  /// Returns the sources of the integers that the op of `source` reads, other than constant
  /// factors. See IntegerForm::source.
  std::vector<NodeId> sources_read(NodeId source) const;
};

/// Never throws: nodes without an integer form are reported in `analysis.refusals`.
Lowered lower(const Graph& graph);

/// Returns the numbers of a norm with the values of its leaves, in their order.
integer::NormNumbers numbers_of(const LoweredNorm& norm,
                                std::span<const std::span<const float>> leaves);

/// Returns the integer op with these numbers.
IntegerOp emit(const Graph& graph, const LoweredOp& op, const Numbers& numbers);

}  // namespace qtape
