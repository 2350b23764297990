// Attention as expressions of values.
#pragma once

#include <cstdint>
#include <string>

#include "qtape/model/value.h"

namespace qtape {

/// Options of `self_attention`.
struct Attention {
  int64_t heads = 1;    ///< at least 1; divides the number of channels
  bool causal = false;  ///< a position attends to itself and the positions before it alone
  bool bias = true;     ///< of both layers
  /// Labels are those of `linear` for `<label>.input` and `<label>.output`. An empty label is
  /// replaced by attention1, attention2, ...
  std::string label = {};
};

/// Multi-head self-attention over x [positions, c] of each sample: a layer computes queries,
/// keys and values of c channels each, which are divided among heads of d = c / heads channels,
///
///   y = softmax(q k^T / sqrt(d)) v  for each head,
///
/// and another layer maps the heads, joined to c channels, to c channels. Weights are stacked
/// in the order of queries, keys, values, as in PyTorch. `quantized(model, ...)` gives it
/// integers. Throws GraphError for x of another rank and for heads that do not divide its
/// channels.
Value self_attention(const Value& x, const Attention& options = {});

/// Layer norm over the last axis of x, with trained factors, 1 at first, and offsets. The label
/// of the result and of `<label>.gamma` and `<label>.beta` is norm1, norm2, ... if empty.
Value layer_norm(const Value& x, const LayerNorm& op = {}, const std::string& label = {});

}  // namespace qtape
