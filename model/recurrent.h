// Recurrent layers, unrolled: one set of nodes for each step, with the same weights.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "qtape/engine/graph.h"

namespace qtape {

/// What `gru` and `lstm` build. Labels are those of `linear` for `<label>.input`, with the
/// weights of x for all gates one below the other, `<label>.state.weight` and
/// `<label>.state.bias` for those of h, and `<label>.<step>` for h after a step, from 0.
struct RecurrentOptions {
  int64_t hidden = 0;                                 ///< numbers of a state, at least 1
  std::optional<Op> weight_quantizer = std::nullopt;  ///< of both weights
  /// Of x unless that is quantized, of the states, and of whatever is computed from them: after each op of a step. So
  /// everything has integers.
  std::optional<Op> activation_quantizer = std::nullopt;
  bool bias_on_grid = true;  ///< as in LayerOptions
  std::string label = "recurrent";
  Initializer weight_initializer = init::XavierUniform{};
};

/// A gated recurrent unit over x [n, steps, c] from the state h [n, hidden], both f32 or f64:
///
///   r, z = sigmoid(x W_r + h U_r), sigmoid(x W_z + h U_z)
///   m = tanh(x W_m + r (h U_m)),  h' = m + z (h - m)
///
/// where products have their bias. Weights hold r, z and m in this order, as in PyTorch. Gives
/// h after each step. Throws GraphError.
std::vector<NodeId> gru(Graph& graph, NodeId x, NodeId h, const RecurrentOptions& options);

/// The same from a state of zeros, which is no input.
std::vector<NodeId> gru(Graph& graph, NodeId x, const RecurrentOptions& options);

/// The state of an LSTM.
struct LstmState {
  NodeId h;
  NodeId c;
};

/// Long short-term memory over x [n, steps, c] from a state of two [n, hidden], all f32 or f64:
///
///   i, f, o = sigmoid(x W + h U) of their own,  g = tanh(x W_g + h U_g)
///   c' = f c + i g,  h' = o tanh(c')
///
/// where products have their bias. Weights hold i, f, g and o in this order, as in PyTorch.
/// Gives the state after each step; `<label>.<step>.cell` is c. Throws GraphError.
std::vector<LstmState> lstm(Graph& graph, NodeId x, const LstmState& state,
                            const RecurrentOptions& options);
/// The same from a state of zeros, which is no input.
std::vector<LstmState> lstm(Graph& graph, NodeId x, const RecurrentOptions& options);

}  // namespace qtape
