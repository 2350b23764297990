// Integer programs for other runtimes: ONNX files.
#pragma once

#include <array>
#include <string>

#include "qtape/core/enum_names.h"
#include "qtape/integer/integer_program.h"

namespace qtape {

/// How products are written.
enum class OnnxForm : uint8_t {
  /// DequantizeLinear of codes and weights, products in float, QuantizeLinear: what runtimes
  /// fuse, and compilers of accelerators read. Sums in float are rounded, so a code next to a
  /// tie may be another one.
  Qdq,
  /// MatMulInteger and ConvInteger of u8 codes and u8 weights with zero point 128, which every
  /// runtime adds exactly: the very codes of the program.
  Integer
};
template <>
inline constexpr auto enum_names<OnnxForm> = std::array<std::string_view, 2>{"qdq", "integer"};

inline constexpr int64_t first_onnx_opset = 13;  ///< of ONNX's operators that is written
inline constexpr int64_t last_onnx_opset = 21;   ///< the same
/// The first with int4, and with quantizers of 16 bits.
inline constexpr int64_t first_onnx_opset_of_int4 = 21;

/// How a program is written.
struct OnnxExportOptions {
  OnnxForm form = OnnxForm::Qdq;
  /// From 21 on Qdq writes weights of up to 4 bits as int4, and codes of 16 bits.
  int64_t opset = first_onnx_opset;
};

/// `program`, of OnnxQdq, as the bytes of an ONNX model.
///
/// Inputs and outputs have the names of their nodes; an output that shares its layer's label
/// has that of the layer. All values between nodes have types and shapes, the batch being the
/// extent `batch`. metadata_props holds `qtape.version`, `qtape.program_sha256`, that of the
/// program's file, `qtape.requantization` and `qtape.form`.
///
/// Throws ArgumentError for another opset, GraphError, naming the node, for another
/// requantization and for what ONNX has not: codes of 16 bits in integers or before opset 21,
/// in integers sums of 64, in Qdq accumulators as outputs, quantizers of inputs that round ties
/// other than to even, divide other than exactly or add the zero point before.
std::string to_onnx(const IntegerProgram& program, const OnnxExportOptions& options = {});

/// Writes the bytes of `to_onnx` to a file and returns their number; the old file survives any
/// failure. Throws IoError as well.
int64_t write_onnx(const std::string& path, const IntegerProgram& program,
                   const OnnxExportOptions& options = {});

}  // namespace qtape
