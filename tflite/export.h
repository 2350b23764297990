// Export of integer programs to `.tflite` files, for TensorFlow Lite Micro.
#pragma once

#include <string>
#include <vector>

#include "qtape/integer/program/integer_program.h"

namespace qtape {

/// Returns `program`, which must have DoubleRounding, as the bytes of a `.tflite` model of one
/// sample, with which the reference kernels of TensorFlow Lite Micro compute its codes.
///
/// - Inputs and outputs are INT8 or INT16: the codes of the quantizers of the program's inputs,
///   and those that its outputs dequantize. `notes` receives how to quantize each input and
///   dequantize each output, and the layers whose weights of up to 4 bits are not INT4.
/// - Unsigned codes become signed ones, minus 128. Codes of 16 bits must be signed and have the
///   zero point 0. Weights of up to 4 bits are INT4 where TensorFlow Lite Micro has a kernel.
/// - Convolutions along one axis become convolutions over images of one row; padding that is
///   neither SAME nor VALID becomes a PAD.
/// - Tensors have the labels of their nodes.
///
/// Throws GraphError with a list of all nodes that TensorFlow Lite Micro does not compute
/// equally, each with the reason.
std::string to_tflite(const IntegerProgram& program, std::vector<std::string>* notes = nullptr);

/// Writes the bytes of `to_tflite` to a file and returns their number; on failure, an existing
/// file is kept. Also throws IoError.
int64_t write_tflite(const std::string& path, const IntegerProgram& program,
                     std::vector<std::string>* notes = nullptr);

}  // namespace qtape
