// Integer programs whose inputs and outputs have the layout of PyTorch and ONNX.
#pragma once

#include "qtape/integer/program/integer_program.h"

namespace qtape {

/// Returns `program` with the channels of its inputs and outputs before the positions: [n, c,
/// t] and [n, c, h, w] instead of [n, t, c] and [n, h, w, c]. Values with fewer axes, and
/// outputs without channels (`has_channel_axis`), keep their layout. An input is moved as codes
/// where quantizers alone read it, otherwise as floats. Codes do not change. Throws GraphError
/// for inputs whose channels are first already, and for outputs that are accumulators with a
/// scale per channel, whose last axis must be that of the channels.
IntegerProgram channels_first(const IntegerProgram& program);

/// True for an input or output of such a program whose channels were moved.
bool has_channels_first(const IntegerProgram& program, ProgramNodeId id);

}  // namespace qtape
