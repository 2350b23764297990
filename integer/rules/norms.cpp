#include "qtape/integer/rules/norms.h"

#include "qtape/core/code_types.h"
#include "qtape/engine/quantizers.h"
#include "qtape/kernels/quantize/quantize.h"

namespace qtape {

Verdict classify_norm(const Operands& operands, const integer::Normalize& op) {
  if (!operands.form(0).is_plain_codes()) return operands.refuse(0);
  const Graph& graph = operands.graph();
  for (size_t k = 1; k < operands.size(); ++k) {
    const NodeId id = operands.id(k);
    if (graph[id].operands.empty() && operands.constant(k)) continue;
    return refusal(
        fmt::format("{} is computed; a norm needs parameters or constants", graph.describe(id)),
        "give the norm a parameter of its own");
  }
  const DType dtype = code_dtype(grid_of(graph, operands.form(0).quantizer).limits);
  const int64_t terms = op.terms(operands.shape(0));
  const int64_t most = integer::Normalize::max_terms(dtype);
  if (terms > most) {
    return refusal(
        fmt::format("norms of codes in {} bits may have at most {} elements in a set, "
                    "got {}",
                    8 * size_of(dtype), most, terms),
        "normalize fewer elements at once");
  }
  return {.is = Verdict::Is::Accumulators};
}

integer::Normalize with_channels(integer::Normalize op, int64_t channels) {
  const std::vector<int32_t> signs(static_cast<size_t>(channels), 1);
  const std::vector<float> scales(static_cast<size_t>(channels), 1);
  const std::vector<int32_t> bias(static_cast<size_t>(channels), 0);
  op.signs = Tensor::of<int32_t>({channels}, signs);
  op.scales = Tensor::of<float>({channels}, scales);
  op.bias = Tensor::of<int32_t>({channels}, bias);
  return op;
}

}  // namespace qtape
