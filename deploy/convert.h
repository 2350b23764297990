// Conversion of a trained graph to an integer program.
#pragma once

#include <vector>

#include "qtape/engine/parameters.h"
#include "qtape/integer/program/integer_program.h"

namespace qtape {

/// Outputs and rounding of a converted program.
struct ConvertOptions {
  Requantization requantization = Requantization::FloatMultiply;
  /// Nodes that are outputs of the program; empty: all answers of the graph, see
  /// Graph::answers.
  std::vector<NodeId> outputs = {};
  /// Output codes and accumulators instead of floats.
  bool integer_outputs = false;
};

/// Converts `graph` to an integer program, which computes bit for bit what a tape with
/// exact(requantization) arithmetic computes. Nodes of codes and of Linear have the labels of
/// the graph nodes from which they come, or of views of those.
///
/// Throws GraphError for a graph without quantizers. Throws GraphError that lists every node
/// that cannot be converted, with the reason: ops without an integer form, operands that are
/// not quantized, scales that were never observed or are computed from each batch, zero points
/// that are not codes, and weights or biases with NaN.
IntegerProgram convert(const Graph& graph, const Parameters& parameters,
                       const ConvertOptions& options);
/// Converts with defaults for the other options.
inline IntegerProgram convert(const Graph& graph, const Parameters& parameters,
                              Requantization requantization) {
  return convert(graph, parameters, ConvertOptions{.requantization = requantization});
}

/// A program, and the correspondence between its nodes and those of the graph.
struct Conversion {
  /// A node of the graph and a node of the program that hold the same integers.
  struct Pair {
    NodeId graph;           ///< the source of the integers, see IntegerForm
    ProgramNodeId program;  ///< its codes or accumulators
  };
  IntegerProgram program;
  std::vector<Pair> pairs;  ///< in the order of the program
};
/// Converts `graph` like `convert`, and returns the correspondence of nodes as well.
Conversion convert_traced(const Graph& graph, const Parameters& parameters,
                          const ConvertOptions& options);

}  // namespace qtape
