// Quantizers of the cell states of LSTM layers, which add over many steps.
#pragma once

#include "qtape/engine/graph.h"

namespace qtape {

/// True if the graph has cell states of LSTM layers, with quantizers or without.
bool has_cell_states(const Graph& graph);

/// Returns a copy of `graph` with `wide` after each cell state of an LSTM step and after the
/// products that it adds. A state is a sum of two products that a Tanh reads or that has such a
/// state as a factor, also outside of LSTM layers. The Tanh reads `narrow` after the state, so
/// that its table has few entries. Throws GraphError for ops that are not quantizers, and if
/// there are no such states without quantizers.
Graph quantize_cell_states(const Graph& graph, const Op& wide, const Op& narrow);

}  // namespace qtape
