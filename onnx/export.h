// Integer programs for other runtimes: ONNX files.
#pragma once

#include <string>

#include "qtape/integer/integer_program.h"

namespace qtape {

/// How a program is written.
struct OnnxExportOptions {
  int64_t opset = 13;  ///< 13 to 17
};

/// `program` as the bytes of an ONNX model that computes its very codes: products by
/// MatMulInteger and ConvInteger, codes by QuantizeLinear of sums in f32, as OnnxQdq has them.
/// Products take u8 codes and u8 weights with zero point 128, which every runtime adds exactly.
///
/// Throws ArgumentError for another opset, GraphError, naming the node, for another
/// requantization than OnnxQdq and for what ONNX has not: codes of 16 bits, quantizers of
/// inputs that round ties other than to even, divide other than exactly or add the zero point
/// before.
std::string to_onnx(const IntegerProgram& program, const OnnxExportOptions& options = {});

/// Writes it; the old file survives any failure. Throws IoError as well.
void export_onnx(const std::string& path, const IntegerProgram& program,
                 const OnnxExportOptions& options = {});

}  // namespace qtape
