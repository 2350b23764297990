// Float models of other programs: ONNX files become graphs with their values.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "qtape/engine/serialize.h"

namespace qtape {

/// Reads an ONNX model of opset 9 to 18 for inference in f32, as `torch.onnx.export` writes it.
///
/// - The first axis of each input is the batch. Inputs of rank 4, and of rank 3 where there are
///   convolutions over one axis, become channels last: [n, c, h, w] is fed as [n, h, w, c], and
///   outputs of their kind leave so. A Gemm or a BatchNormalization behind a Flatten of such
///   gets its numbers in that order.
/// - Initializers become Parameters of their names, one for all nodes that read one alike. A
///   layer is called as its weight without `.weight`, else as the module in the name of its
///   node; weights that an exporter numbered (`onnx::Conv_120`) are called after the layer.
///   Outputs have the labels that the file gives them, where no layer has these.
/// - The operators: Gemm, MatMul, Conv, ConvTranspose, MaxPool, AveragePool,
///   GlobalAveragePool, BatchNormalization, LayerNormalization, Relu, LeakyRelu, Clip, Sigmoid,
///   Tanh, HardSigmoid, HardSwish, Gelu, Exp, Log, Neg, Sqrt, Pow (2 and 0.5), Softmax,
///   LogSoftmax, Add, Sub, Mul, Div, Concat, Split, Slice, Gather (indices one after another),
///   Reshape, Flatten, Squeeze, Unsqueeze, Transpose, Pad, Resize and Upsample (nearest
///   neighbours by whole factors), ReduceMean, ReduceSum, ReduceMax, Dropout, Identity, Cast,
///   Constant; and of constants and shapes Shape, Gather, Concat, ConstantOfShape, Slice and
///   the arithmetic of Add, Sub, Mul and Div.
/// - Nodes, inputs and tensors that no output needs are left out.
///
/// Throws IoError for a file that cannot be read, FormatError, which begins with the path, for
/// what is no ONNX model, other opsets, and with all nodes, attributes, inputs and tensors that
/// cannot be read, each with its name, its reason and often a remedy. Memory grows with the
/// bytes of the file alone: constants that nodes compute of others may be some times as large,
/// no more. `notes` gets a line for each thing that was left out.
SavedModel import_onnx(const std::string& path, std::vector<std::string>* notes = nullptr);

/// The same from the bytes of such a file; messages begin with `name`.
SavedModel parse_onnx(std::string_view bytes, std::string_view name,
                      std::vector<std::string>* notes = nullptr);

}  // namespace qtape
