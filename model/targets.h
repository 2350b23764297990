// Targets: the columns of data that the answers of a model are compared with.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "qtape/data/dataset.h"
#include "qtape/engine/graph.h"
#include "qtape/integer/program/integer_program.h"

namespace qtape {

/// Returns the columns that are targets, in order.
std::vector<size_t> target_columns(const data::Dataset& dataset);

/// Returns the names of the answers of a graph, or of the outputs of a program.
std::vector<std::string> names_of_answers(const Graph& graph);
std::vector<std::string> names_of_answers(const IntegerProgram& program);

/// Returns for each answer the targets that it may be compared with: the one with its name or
/// with `.target` after it, otherwise, with as many targets as answers, the next one without
/// the name of another answer. With another number of targets, all of the rest for the first
/// answer and none for the others.
std::vector<std::vector<size_t>> targets_of(const data::Dataset& dataset,
                                            std::span<const std::string> answers);

/// A node of a loss that compares an answer with an input.
struct Comparison {
  NodeId node;   ///< MeanSquaredError, SoftmaxCrossEntropy or Sub
  NodeId input;  ///< batched
};

/// Returns for each answer the node with which a loss compares it, or a view of it, with an
/// input: the first MeanSquaredError or SoftmaxCrossEntropy; otherwise a difference from an
/// input on which no answer depends, if there is one such input. Answers without such a node
/// are left out.
std::map<NodeId, Comparison> comparisons(const Graph& graph);

/// True if `target` holds classes of an answer of type `answer`:
///
/// - labels of samples, for answers [batch, classes], perhaps with axes of extent 1, and for
///   answers [batch], logits of the class 1 of two;
/// - integers [...], labels of positions such as pixels or steps, for answers
///   [batch, ..., classes] of at least 2 classes.
bool holds_classes(const data::Column& target, const TensorType& answer);

/// Returns the number of classes of which `answer` is the index of the largest one, perhaps
/// moved or as f32: those of its ArgMax. 0 for other answers.
int64_t indexed_classes(const Graph& graph, NodeId answer);
int64_t indexed_classes(const IntegerProgram& program, ProgramNodeId answer);

/// Throws ArgumentError, which names the first label that is too large, if `column` has more
/// than `classes` classes.
void require_classes(const data::Dataset& dataset, size_t column, int64_t classes);

/// True if any answer of `graph` is compared with classes.
bool compares_classes(const Graph& graph, const data::Dataset& dataset);

}  // namespace qtape
