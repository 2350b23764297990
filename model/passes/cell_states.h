// Quantizers of the cell states of LSTM layers, which add over many steps.
#pragma once

#include "qtape/engine/graph.h"

namespace qtape {

/// Returns a copy of `graph` with `wide` after each cell state of an LSTM step, a sum of two
/// products that a Tanh reads, and after these products. The Tanh reads `narrow` after the
/// state, so that its table has few entries. Throws GraphError for ops that are not
/// quantizers, and if there are no such states without quantizers.
Graph quantize_cell_states(const Graph& graph, const Op& wide, const Op& narrow);

}  // namespace qtape
