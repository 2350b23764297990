// ONNX operators that compute with codes, as operators of floats between quantizers.
#pragma once

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <string_view>
#include <vector>

namespace qtape {

/// Replaces QLinearConv, QLinearMatMul, and QGemm and the QLinear operators of com.microsoft by
/// DequantizeLinear nodes, an operator of floats and a QuantizeLinear; and the Mul of
///
///   Mul(Cast(MatMulInteger(QuantizeLinear(x), w)), scales)
///
/// or of ConvInteger by DequantizeLinear nodes and a product of floats.
/// `opset` is that of the default domain.
void expand_code_operators(onnx::GraphProto& graph, int64_t opset);

/// Returns the types of the QLinear operators, and QGemm.
std::vector<std::string_view> onnx_code_operators();

}  // namespace qtape
