// Targets: the columns of data that the answers of a model are compared with.
#pragma once

#include <optional>
#include <vector>

#include "qtape/data/dataset.h"
#include "qtape/engine/graph.h"
#include "qtape/integer/program/integer_program.h"

namespace qtape {

/// Returns the columns that are targets, in order.
std::vector<size_t> target_columns(const data::Dataset& dataset);

/// Returns the column of the target of answer `index` out of `answers`: if there are as many
/// targets as answers, the one of the same index; otherwise the first one for the first answer
/// and none for all others.
std::optional<size_t> target_of(const data::Dataset& dataset, size_t index, size_t answers);

/// True if `target` holds classes of an answer of type `answer`:
///
/// - labels of samples, for answers [batch, classes], perhaps with axes of extent 1, and for
///   answers [batch], logits of the class 1 of two;
/// - integers [...], labels of places such as pixels or steps, for answers
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
