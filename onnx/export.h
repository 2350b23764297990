// Export of integer programs to ONNX files, for other runtimes.
#pragma once

#include <array>
#include <string>

#include "qtape/core/enum_names.h"
#include "qtape/integer/program/integer_program.h"

namespace qtape {

/// Representation of products.
enum class OnnxForm : uint8_t {
  /// DequantizeLinear of codes and weights, products in float, QuantizeLinear: the form that
  /// runtimes fuse and that compilers for accelerators read. Float sums are rounded, so a code
  /// next to a tie may differ.
  Qdq,
  /// MatMulInteger and ConvInteger of u8 codes and u8 weights with zero point 128, which every
  /// runtime adds exactly: the codes equal those of the program.
  Integer,
  /// Floats on the grids of the codes, produced by Quant nodes of the domain
  /// qonnx.custom_op.general, with zero points of 0: for compilers to FPGAs, which read bits
  /// and
  /// scales from these nodes. Products are those of Qdq.
  Qonnx
};
template <>
inline constexpr auto enum_names<OnnxForm> =
    std::array<std::string_view, 3>{"qdq", "integer", "qonnx"};

inline constexpr int64_t first_onnx_opset = 13;  ///< first supported opset of ONNX's operators
inline constexpr int64_t last_onnx_opset = 21;   ///< last supported opset of ONNX's operators
/// First opset with int4 and with 16-bit quantizers.
inline constexpr int64_t first_onnx_opset_of_int4 = 21;

/// Options of an export.
struct OnnxExportOptions {
  OnnxForm form = OnnxForm::Qdq;
  /// From opset 21 on, Qdq writes weights of up to 4 bits as int4, and supports 16-bit codes.
  int64_t opset = first_onnx_opset;
};

/// Returns `program`, which must have OnnxQdq requantization, as the bytes of an ONNX model.
///
/// Inputs and outputs have the names of their nodes; an output that shares its layer's label
/// has the name of the layer. All values between nodes have types and shapes, and the batch
/// extent is the symbolic extent `batch`, or 1 in the Qonnx form, whose outputs are floats.
/// metadata_props contains `qtape.version`,
/// `qtape.program_sha256` (the hash of the program's file), `qtape.requantization` and
/// `qtape.form`.
///
/// Throws ArgumentError for an unsupported opset. Throws GraphError, which names the node, for
/// another requantization and for features that ONNX lacks: in the Integer form 16-bit codes
/// and 64-bit sums; in the Qdq form 16-bit codes before opset 21; in the Qdq and the Qonnx form
/// accumulators as outputs; and quantizers of inputs with rounding other than ties to even,
/// inexact division or the zero point added before rounding. In the Qonnx form the error lists
/// all such nodes, among them tables, means and norms of codes, and grids whose codes, less
/// their zero point, are not those of a Quant node.
std::string to_onnx(const IntegerProgram& program, const OnnxExportOptions& options = {});

/// Writes the bytes of `to_onnx` to a file and returns their number; on failure, an existing
/// file is kept. Also throws IoError.
int64_t write_onnx(const std::string& path, const IntegerProgram& program,
                   const OnnxExportOptions& options = {});

}  // namespace qtape
