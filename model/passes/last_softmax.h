// A last Softmax or LogSoftmax, which integer programs leave out.
#pragma once

#include <optional>
#include <vector>

#include "qtape/engine/serialize.h"

namespace qtape {

/// Returns the node before the Reshape, Flatten, Transpose, Cast and quantizers that lead to an
/// answer; if it is an ArgMax along the axis of the Softmax or LogSoftmax that it reads, its
/// operand.
NodeId scores_of(const Graph& graph, NodeId answer);

/// Returns the Softmax and LogSoftmax nodes after which nothing is computed: Reshape, Flatten,
/// Transpose, Cast, quantizers and an ArgMax along its axis alone lie between each and the
/// answers that need it. Where there is no ArgMax, its axis must be the last one of the answer,
/// that of classes: along others the operand has another order. Losses do not count.
std::vector<NodeId> last_softmaxes(const Graph& graph);

/// Returns the graph without its last Softmax and LogSoftmax nodes and the quantizers after
/// them: the nodes that read them read their operands. The classes of an answer keep their
/// order, and so its largest class. If there are any, losses are left out as well.
Graph without_last_softmaxes(const Graph& graph);

/// If `answer` is a Softmax or LogSoftmax along its last axis of more than one element, or a
/// Reshape or Flatten of one to the same shape, returns the operand of that node; otherwise
/// `answer`.
NodeId before_softmax(const Graph& graph, NodeId answer);

/// Returns the Sigmoid whose values, perhaps quantized or reshaped, are `answer`; else nullopt.
std::optional<NodeId> last_sigmoid(const Graph& graph, NodeId answer);

/// Returns the logit of an answer of one probability for each sample, the operand of its
/// Sigmoid; other answers as they are.
NodeId before_sigmoid(const Graph& graph, NodeId answer);

}  // namespace qtape
