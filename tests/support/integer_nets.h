// Small quantized nets, settled on random data, and a check that all levels of arithmetic agree
// on them.
#pragma once

#include <span>
#include <string>

#include "qtape/deploy/verify.h"

namespace qtape::test {

/// Fills biases and batch norms, sets Fixed scales and lets the observers see a batch.
void settle(const Graph& graph, Parameters& parameters, uint64_t seed);
/// A graph with parameters that are settled on random data.
struct Settled {
  Graph graph;
  Parameters parameters;

  Settled(const Graph& of, uint64_t seed) : graph(of), parameters(graph, seed) {
    settle(graph, parameters, seed);
  }
  IntegerProgram program(const ConvertOptions& options = {}) {
    return convert(graph, parameters, options);
  }
  IntegerProgram program(Requantization requantization) {
    return convert(graph, parameters, requantization);
  }
};
/// Fills x with values of all magnitudes, including infinities and zeros of both signs.
void fill_wild(std::span<float> x, uint64_t seed);
/// Fills x with indices from 0 to `most`.
void fill_indices(std::span<int32_t> x, int64_t most, uint64_t seed);
/// Fills input `which` of a verifier in one of these ways.
void fill_input(Verifier& verifier, size_t which, uint64_t seed);
/// True if every Linear of the program is exact in f32.
bool all_exact_in_f32(const IntegerProgram& program);

/// Returns the first mismatch of a verification; empty if there is none.
std::string mismatch(const Verifier& verifier);

/// Number of requantizations, thread counts and product paths that are tested.
enum class Effort { Some, All };
/// Returns an empty string if all levels agree in every integer and output, otherwise the first
/// difference. Verifies all answers if `outputs` is empty.
std::string disagreement(const Graph& graph, Parameters& parameters, uint64_t seed,
                         Effort effort, const std::vector<NodeId>& outputs = {});
inline std::string disagreement(Settled net, uint64_t seed, Effort effort,
                                const std::vector<NodeId>& outputs = {}) {
  return disagreement(net.graph, net.parameters, seed, effort, outputs);
}

/// Returns a net of random pieces: layers, some with folded batch norms, accumulators,
/// concatenations, slices, reductions, views and quantizers of all kinds.
Graph random_net(uint64_t seed);
/// Returns a net of random convolutions along one or two axes, with all their features.
Graph conv_net(uint64_t seed);
/// Returns a net of random moves, resizing, pools, rows of tables, norms, functions and pairs
/// of broadcast shapes.
Graph axes_net(uint64_t seed);
/// Returns a net of one of these kinds.
inline Graph any_net(uint64_t seed) {
  if (seed % 3 == 0) return axes_net(seed);
  return seed % 2 == 0 ? conv_net(seed) : random_net(seed);
}

}  // namespace qtape::test
