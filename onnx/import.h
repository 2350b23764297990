// Float models of other programs: ONNX files become graphs with their values.
#pragma once

#include <string>
#include <string_view>

#include "qtape/engine/serialize.h"

namespace qtape {

/// Reads an ONNX model of opset 9 to 18 for inference in f32, as `torch.onnx.export` writes it.
///
/// - The first axis of each input is the batch. Inputs of rank 4, and of rank 3 where there are
///   convolutions over one axis, become channels last: [n, c, h, w] is fed as [n, h, w, c], and
///   outputs of their kind leave so. A Gemm or a BatchNormalization behind a Flatten of such
///   gets its numbers in that order.
/// - Initializers become Parameters of their names, one for all nodes that read one alike. A
///   layer is called as its weight without `.weight`.
/// - The operators: Gemm, MatMul, Conv, MaxPool, AveragePool, GlobalAveragePool,
///   BatchNormalization, Relu, LeakyRelu, Clip, Sigmoid, Tanh, HardSigmoid, HardSwish, Gelu,
///   Exp, Log, Neg, Sqrt, Softmax, LogSoftmax, Add, Sub, Mul, Div, Concat, Reshape, Flatten,
///   Squeeze, Unsqueeze, Transpose, Slice, Pad, ReduceMean, ReduceSum, ReduceMax, Dropout,
///   Identity, Cast, Constant; and Shape, Gather, Concat, ConstantOfShape and the like of what
///   a Reshape or a Pad reads.
///
/// Throws IoError for a file that cannot be read, FormatError, which begins with the path and
/// names node and operator, for what is no ONNX model, other opsets, data in other files, and
/// all that has no counterpart here. Memory grows with the bytes of the file alone: constants
/// that nodes compute of others may be some times as large, no more.
SavedModel import_onnx(const std::string& path);

/// The same from the bytes of such a file; messages begin with `name`.
SavedModel parse_onnx(std::string_view bytes, std::string_view name);

}  // namespace qtape
