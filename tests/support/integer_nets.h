// Small quantized nets, settled on random data, and whether all levels of arithmetic agree on
// them.
#pragma once

#include <span>
#include <string>

#include "qtape/deploy/verify.h"

namespace qtape::test {

/// Fills biases and batch norms, sets Fixed scales and has the observers see a batch.
void settle(const Graph& graph, Parameters& parameters, uint64_t seed);
/// Values of all magnitudes, infinities and zeros of both signs among them.
void fill_wild(std::span<float> x, uint64_t seed);
/// Whether every Linear of the program is exact in f32.
bool all_exact_in_f32(const IntegerProgram& program);

/// How much is tried: requantizations, threads and ways to multiply.
enum class Effort { Some, All };
/// Nothing when all levels agree in every integer and every output, else where they do not.
/// Verifies the graph's first output where `outputs` is empty.
std::string disagreement(const Graph& graph, Parameters& parameters, uint64_t seed,
                         Effort effort, const std::vector<NodeId>& outputs = {});

/// A net of random pieces: layers, some with folded batch norms, accumulators, joins, slices,
/// reductions, views and quantizers of all kinds.
Graph random_net(uint64_t seed);
/// A net of random convolutions, along one or two axes, with all that they can have.
Graph conv_net(uint64_t seed);

}  // namespace qtape::test
