// Levels of verification that run programs as ONNX models.
#pragma once

#include "qtape/deploy/level.h"
#include "qtape/onnx/export.h"

namespace qtape {

/// Returns runners for VerifyOptions::runners: L5, an interpreter that follows the
/// specification of each operator, and L7, the ONNX Runtime of `python3`. Both run programs of
/// OnnxQdq as written by `to_onnx` with `options`. The Integer form is bit-identical to L2; the
/// Qdq form has no accumulators. Creating a runner throws like `to_onnx`; L7 throws Error if
/// `python3` lacks onnxruntime or NumPy.
RunnerFactories onnx_levels(const OnnxExportOptions& options = {.form = OnnxForm::Integer});

}  // namespace qtape
