// Recurrent layers, unrolled: one set of nodes for each step, with shared weights. If a layer
// throws, it adds nothing.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "qtape/engine/graph.h"

namespace qtape {

/// Options of `gru` and `lstm`. Labels are those of `linear` for `<label>.input`, whose weights
/// stack the weights of x for all gates, `<label>.state.weight` and `<label>.state.bias` for
/// those of h, and `<label>.<step>` for h after a step, from 0.
struct RecurrentOptions {
  int64_t hidden = 0;                                 ///< size of a state, at least 1
  std::optional<Op> weight_quantizer = std::nullopt;  ///< of both weights
  /// Quantizer of x (unless x is quantized already), of the states, and of every value that is
  /// computed from them, after each op of a step. With it the whole layer has an integer form.
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
/// with a bias added to each product. Weights are stacked in the order r, z, m, as in PyTorch.
/// Returns h after each step. Throws GraphError.
std::vector<NodeId> gru(Graph& graph, NodeId x, NodeId h, const RecurrentOptions& options);

/// Gated recurrent unit from a state of zeros, which is not an input.
std::vector<NodeId> gru(Graph& graph, NodeId x, const RecurrentOptions& options);

/// The state of an LSTM.
struct LstmState {
  NodeId h;
  NodeId c;
};

/// Long short-term memory over x [n, steps, c] from a state of h and c [n, hidden], all f32 or
/// f64:
///
///   i, f, o = sigmoid(x W + h U) with separate weights each,  g = tanh(x W_g + h U_g)
///   c' = f c + i g,  h' = o tanh(c')
///
/// with a bias added to each product. Weights are stacked in the order i, f, g, o, as in
/// PyTorch. Returns the state after each step; `<label>.<step>.cell` is c. Throws GraphError.
std::vector<LstmState> lstm(Graph& graph, NodeId x, const LstmState& state,
                            const RecurrentOptions& options);
/// Long short-term memory from a state of zeros, which is not an input.
std::vector<LstmState> lstm(Graph& graph, NodeId x, const RecurrentOptions& options);

}  // namespace qtape
