// Levels of verification that run programs as ONNX models.
#pragma once

#include "qtape/deploy/level.h"
#include "qtape/onnx/export.h"

namespace qtape {

/// L5: the program as an ONNX model, by an interpreter of the specification.
inline constexpr Level onnx_level = {5, "L5 ONNX"};
/// L7: the ONNX model by ONNX Runtime, in this process or in `python3`.
inline constexpr Level onnx_runtime_level = {7, "L7 ONNX Runtime"};

/// Runners for VerifyOptions::runners of L5, an interpreter that computes each operator as the
/// specification defines, and of L7, ONNX Runtime. Both take programs of OnnxQdq as `to_onnx`
/// writes them with `options`. The Integer form is bit-identical to L2; the Qdq form has
/// no accumulators. Creating one throws as `to_onnx` does, and
/// ArgumentError for the form Qonnx, which has no codes.
///
/// L7 opens libonnxruntime and creates one session in this process. If the library cannot be
/// opened, if it is older than the header with which qtape was built, or if there was no
/// header, each run is a process of `python3`. Its report states which of the two runs, and the
/// reason. Making it throws Error where neither is available.
RunnerFactories onnx_levels(const OnnxExportOptions& options = {.form = OnnxForm::Integer});

}  // namespace qtape
