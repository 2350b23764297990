// Transposed convolutions as convolutions of phases, which have an integer form.
#pragma once

#include <string>
#include <vector>

#include "qtape/engine/graph.h"

namespace qtape {

/// Result of sub_pixel_convolutions.
struct SubPixelGraph {
  Graph graph;
  std::vector<std::string> labels = {};  ///< of the transposed convolutions, or `%7`
};

/// Returns a copy of `graph` in which a Conv2d, whose outputs are interleaved, replaces each
/// ConvTranspose2d with weights that depend on no input (Shi et al., CVPR 2016).
///
/// - An axis with stride s has s phases: output s m + r is the sum of x[m - t] filters[s t + r]
///   over t, where taps beyond the kernel are 0. The Conv2d computes all phases of all axes as
///   channels, groups first; a Transpose interleaves them and slices remove the padding.
/// - The filters are computed from the same leaf by nodes that only move elements, so the leaf
///   keeps its label and shape, and training cannot change the taps that are 0.
/// - A sum with a bias and elementwise nodes that follow without other readers move before the
///   interleaving: a quantizer then rounds their results alone.
///
/// Transposed convolutions with more than 64 phases, or filters of more than 64 steps, are
/// kept.
SubPixelGraph sub_pixel_convolutions(const Graph& graph);

}  // namespace qtape
