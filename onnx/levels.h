// Levels of verification that run programs as ONNX models.
#pragma once

#include "qtape/deploy/level.h"
#include "qtape/onnx/export.h"

namespace qtape {

/// Runners for VerifyOptions::runners of L5, an interpreter that computes each operator as the
/// specification says, and of L7, the ONNX Runtime of `python3`. Both take programs of OnnxQdq
/// in the form `form`, of which that in integers is equal to L2 in every bit; the other has no
/// accumulators. Making one throws as `to_onnx` does; L7 throws Error where `python3` has no
/// onnxruntime or NumPy.
RunnerFactories onnx_levels(OnnxForm form = OnnxForm::Integer);

}  // namespace qtape
