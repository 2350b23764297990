// Import of models of TensorFlow Lite: of quantized ones as integer programs, of all as models
// that are trained and converted.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "qtape/engine/serialize.h"
#include "qtape/integer/program/integer_program.h"

namespace qtape {

/// Reads a `.tflite` model of int8, or of int16 activations and int8 weights, as a program of
/// DoubleRounding whose codes are those of the reference kernels of TensorFlow Lite Micro, in
/// every tensor.
///
/// - Inputs are f32: a quantizer, which rounds halves away from zero, makes the codes of the
///   file's input. Outputs are the floats that the file's codes represent. (q - zp) s fed to an
///   input gives the code q.
/// - Nodes that write codes have the names of the tensors; a number is appended to a name in
///   use.
/// - The first axis is the batch if its extent is 1 in all activations; otherwise the program
///   has the extents of the file.
/// - Operators are those of docs/limits.md; fused activations are RELU, RELU6 and RELU_N1_TO_1.
///
/// Throws IoError for a file that cannot be read. Throws FormatError, which begins with the
/// path, for damaged files, and with a list of all operators and tensors that are not
/// supported, each with the reason. `notes` receives a line for each property of the file that
/// the program does not keep.
IntegerProgram import_tflite(const std::string& path,
                             std::vector<std::string>* notes = nullptr);

/// Reads a model from the bytes of a file.
IntegerProgram parse_tflite(std::string_view bytes, std::vector<std::string>* notes = nullptr);

/// Reads a `.tflite` model in floats, in codes as above, or with int8 weights and floats as a
/// graph with its values.
///
/// - Inputs and outputs are f32, in the layout of the file: images [n, h, w, c]. The batch is
///   as stated above.
/// - Each tensor of codes becomes a FakeQuantize with its scales and zero points, which
///   are Fixed and round halves away from zero. Weights are parameters with the values of their
///   codes. Biases are parameters that are rounded to the codes of the file (FakeQuantizeBias).
///   Conversion with DoubleRounding gives the codes that `import_tflite` gives, except for the
///   operators that `notes` name.
/// - Nodes have the names of the tensors, quantizers those with `.quantized`; a number is
///   appended to a name in use. Weights are [outputs, h, w, channels], biases [outputs].
/// - A SOFTMAX that returns codes has no quantizer if it is an output: conversion leaves it
/// out.
/// - Means may be of any number of elements. Arithmetic with one constant number in floats is
///   an Affine, which is not trained.
///
/// Throws like `import_tflite`. `notes` receives a line for each property of the file that the
/// model, or its conversion, does not keep.
SavedModel import_tflite_model(const std::string& path,
                               std::vector<std::string>* notes = nullptr);

/// Reads a model from the bytes of a file.
SavedModel parse_tflite_model(std::string_view bytes,
                              std::vector<std::string>* notes = nullptr);

/// True if `bytes` begin as a `.tflite` file does.
bool is_tflite(std::string_view bytes);

}  // namespace qtape
