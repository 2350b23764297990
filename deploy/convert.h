// Conversion: a trained graph as an integer program.
#pragma once

#include <vector>

#include "qtape/engine/parameters.h"
#include "qtape/integer/integer_program.h"

namespace qtape {

/// What a program yields, and how it rounds.
struct ConvertOptions {
  Requantization requantization = Requantization::FloatMultiply;
  /// Nodes that the program yields; empty: all answers of the graph, see Graph::answers.
  std::vector<NodeId> outputs = {};
  /// Yield codes and accumulators instead of floats.
  bool integer_outputs = false;
};

/// What `graph` computes between its quantizers, in integers: what a tape with
/// exact(requantization) arithmetic computes, bit for bit. Nodes of codes and of Linear have
/// the labels of the nodes that they come from, or of views of them. `parameters` are read
/// only.
///
/// Throws GraphError for a graph without quantizers, and one that lists every node that cannot
/// be converted, with the reason: operations without integers, operands that are not quantized,
/// scales that were never observed or come from each batch, zero points that are no codes,
/// weights and biases with NaN.
IntegerProgram convert(const Graph& graph, Parameters& parameters,
                       const ConvertOptions& options);
/// The same with the other options as they are by default.
inline IntegerProgram convert(const Graph& graph, Parameters& parameters,
                              Requantization requantization) {
  return convert(graph, parameters, ConvertOptions{.requantization = requantization});
}

/// A program, and which integers of the graph its nodes hold.
struct Conversion {
  /// A node of the graph and one of the program that hold the same integers.
  struct Pair {
    NodeId graph;    ///< a node that is the source of its integers, see IntegerForm
    NodeId program;  ///< its codes or accumulators
  };
  IntegerProgram program;
  std::vector<Pair> pairs;  ///< in the order of the program
};
/// The same, for tools that compare the two.
Conversion convert_traced(const Graph& graph, Parameters& parameters,
                          const ConvertOptions& options);

}  // namespace qtape
