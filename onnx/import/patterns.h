// Functions that exporters write as several nodes.
#pragma once

#include <onnx/onnx_pb.h>

namespace qtape {

/// Replaces the last node of each GELU, Mish and Hardswish that is written as several nodes by
/// one node of that type, and removes the other nodes unless they are read elsewhere:
///
///   0.5 x (1 + erf(x / sqrt 2)),  0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))),
///   x tanh(softplus(x)),  x clip(x + 3, 0, 6) / 6,  x hardsigmoid(x)
///
/// with factors in any order, and constants within 1e-4. A choice by the sign of x between x
/// and a x becomes a LeakyRelu. The same for the local response norm of PyTorch with an odd
/// size, which becomes LRN.
///
/// Equal means and differences are merged first (`merge_equal_nodes`), and elements of
/// sequences replaced last (`replace_sequence_items`).
void fuse_patterns(onnx::GraphProto& graph);

}  // namespace qtape
