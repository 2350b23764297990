// Codes of quantized ONNX models.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "qtape/engine/graph.h"
#include "qtape/onnx/tensor_proto.h"

namespace qtape {

/// True for operators that move codes, so that their results lie on the same grid.
bool onnx_moves_codes(std::string_view type);

class OnnxImporter;
class OnnxNode;
struct OnnxOperators;

/// Returns the codes of a quantizer of the imported graph as the file stores them.
OnnxCodes onnx_codes_of(const OnnxImporter& to, NodeId quantizer);

/// Returns the element type of ONNX in which the file stores the codes of a quantizer.
int32_t onnx_code_type(const OnnxImporter& to, NodeId quantizer);

/// Returns the value of a code in the grid of the codes that precede `id`. Throws FormatError
/// if there are none.
float onnx_value_of_code(const OnnxImporter& to, NodeId id, int64_t code);

/// Converts a Clip of codes: a quantizer of fewer bits if the limits are those of its codes,
/// otherwise limits of their values, quantized again.
void clip_onnx_codes(const OnnxOperators& node);

/// Returns the quantizer that rounds to `codes`, whose scales or blocks lie along `axis` of its
/// operand if there are several.
FakeQuantize quantizer_for(const OnnxCodes& codes, int axis);

/// Adds a quantizer of x, whose scale and zero point are those of `codes`.
NodeId add_onnx_quantizer(OnnxImporter& to, const OnnxNode& node, NodeId x,
                          const OnnxCodes& codes, const FakeQuantize& op);

/// Adds a rounding to the grid of their sums to biases of products whose operands are
/// quantized; `values` holds those of all leaves. Adds a note for each bias that this changes,
/// unless `notes` is null.
Graph with_rounded_biases(const Graph& graph, const std::map<std::string, Tensor>& values,
                          std::vector<std::string>* notes);

/// Adds a Relu before quantizers whose lowest code is 0, or a Clamp if the highest one is 6,
/// unless their operand is never negative or a leaf: ONNX Runtime removes activations that such
/// codes replace, but without quantizers the model needs them. Codes stay the same. Adds a note
/// with their number, unless `notes` is null.
Graph with_activations(const Graph& graph, const std::map<std::string, Tensor>& values,
                       std::vector<std::string>* notes);

}  // namespace qtape
