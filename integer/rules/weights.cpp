#include "qtape/integer/rules/weights.h"

#include "qtape/engine/quantizers.h"
#include "qtape/kernels/quantize/requantize.h"

namespace qtape {
namespace {

constexpr int32_t max_code = 127;
constexpr const char* remedy =
    "quantize the weights symmetrically to 2..8 bits, with one scale or one per output";

std::string wrong_extents(const WeightLayout& layout) {
  if (layout.terms > kernels::max_terms) {
    return fmt::format("accumulators may have at most 2^23 terms, got {}", layout.terms);
  }
  if (layout.outputs > kernels::max_terms) {
    return fmt::format("may have at most 2^23 outputs, got {}", layout.outputs);
  }
  return "";
}

}  // namespace

Verdict classify_product(const Operands& operands, size_t k, const WeightLayout& layout) {
  if (operands.form(k).kind != IntegerKind::Weight) return operands.refuse_unquantized(k);
  const Graph& graph = operands.graph();
  const NodeId id = operands.form(k).quantizer;
  const Shape& shape = operands.shape(k);
  if (graph[id].type.shape != shape) {
    return refusal(fmt::format("weights are quantized as {} and multiplied as {}",
                               to_string(graph[id].type.shape), to_string(shape)),
                   "quantize them in the shape of the product");
  }
  const Grid grid = grid_of(graph, id);
  if (grid.scheme != Scheme::Symmetric) {
    return refusal("weights must be symmetric: their zero point would multiply every input",
                   remedy);
  }
  if (grid.limits.q_min < -max_code - 1 || grid.limits.q_max > max_code) {
    return refusal(fmt::format("weights need codes within s8, got {}..{}", grid.limits.q_min,
                               grid.limits.q_max),
                   remedy);
  }
  if (std::string wrong = wrong_extents(layout); !wrong.empty()) {
    return refusal(std::move(wrong), "split the layer into smaller ones");
  }
  const ChannelMap map = channel_map(graph, id);
  if (map.channels != 1 && map != ChannelMap(shape, Granularity{layout.axis, std::nullopt})) {
    return refusal(
        fmt::format("weights need one scale or one per output, axis {}, got {} scales",
                    layout.axis, map.channels),
        remedy);
  }
  return {.is = Verdict::Is::Accumulators};
}

}  // namespace qtape
