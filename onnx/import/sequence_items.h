// Parts of a value that a file reads as elements of a sequence.
#pragma once

#include "qtape/onnx/import/graph_view.h"

namespace qtape {

/// Replaces each SequenceAt of a SplitToSequence by a Gather or a Slice of the value that is
/// split, where the index and the sizes of the parts are constants; others are kept.
void replace_sequence_items(OnnxGraphView& view);

}  // namespace qtape
