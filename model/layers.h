// Layers: helpers that add the usual nodes with the usual labels.
#pragma once

#include <optional>
#include <string>

#include "qtape/engine/graph.h"

namespace qtape {

/// What `linear` builds. Labels are `<label>.weight`, `<label>.bias`, `<label>` for the result,
/// those of `add_quantizer` for `<label>.weight` and `<label>.input`, and
/// `<label>.bias.quantized`.
struct LinearOptions {
  int64_t out = 0;                                    ///< output features, at least 1
  std::optional<Op> weight_quantizer = std::nullopt;  ///< of the weight [out, in]
  std::optional<Op> input_quantizer = std::nullopt;   ///< of x
  bool bias = true;
  /// Round the bias to the grid of the accumulators that it is added to, where they have one:
  /// see `accumulators_have_grid`. A quantizer that x itself is or shows (`quantizer_behind`)
  /// counts as well.
  bool bias_on_grid = true;
  std::string label = "linear";
  Initializer weight_initializer = init::KaimingNormal{};
};

/// y = x w^T + b. x f32 or f64 [..., in], y [..., out]. Throws GraphError.
NodeId linear(Graph& graph, NodeId x, const LinearOptions& options);

}  // namespace qtape
