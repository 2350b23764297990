// Clip of codes: quantizers of fewer bits, as PyTorch's QAT and QDQ files of few bits have
// them.
#include <algorithm>
#include <optional>

#include "qtape/engine/quantizers.h"
#include "qtape/integer/rules/quantizer_of.h"
#include "qtape/onnx/import/operators.h"
#include "qtape/onnx/import/quantized.h"

namespace qtape {
namespace {

struct ClipOperators : OnnxOperators {
  void clip();
};

/// Bits and range of codes.
struct CodeGrid {
  int bits;
  CodeRange range;
};

/// Returns the grid with the codes `low` to `high`, if there is one.
std::optional<CodeGrid> grid_with(int64_t low, int64_t high) {
  for (int bits = 2; bits <= 16; ++bits) {
    for (const CodeRange range : {CodeRange::Unsigned, CodeRange::Full, CodeRange::Narrow}) {
      const CodeLimits limits = code_limits(bits, range);
      if (limits.q_min == low && limits.q_max == high) return CodeGrid{bits, range};
    }
  }
  return std::nullopt;
}

}  // namespace

void ClipOperators::clip() {
  OnnxValue a = moved_x();
  const auto quantizer = preceding_quantizer(to.graph(), a.id);
  expect(quantizer.has_value(), "input 0 has no codes of a QuantizeLinear");
  settle();
  const OnnxCodes stored = onnx_codes_of(to, *quantizer);
  // As ONNX defines it, the upper end wins where they cross.
  const int64_t high =
      std::clamp(to.integer(node, 2, stored.highest()), stored.lowest(), stored.highest());
  const int64_t low = std::clamp(to.integer(node, 1, stored.lowest()), stored.lowest(), high);
  if (low == stored.lowest() && high == stored.highest()) return give(std::move(a));
  FakeQuantize op = quantizer_for(stored, 0);
  const std::optional<CodeGrid> grid = grid_with(low, high);
  const int64_t zero = stored.zero_points[0];
  if (!grid || zero < low || zero > high) {
    const auto value = [&](int64_t code) {
      return static_cast<float>(code - zero) * stored.scales[0];
    };
    const NodeId clamped = to.add(Clamp{.low = value(low), .high = value(high)}, {a.id});
    a.id = add_onnx_quantizer(to, node, clamped, stored, op);
    return give(std::move(a));
  }
  op.bits = grid->bits;
  op.range = grid->range;
  // A quantizer of the same scale that clips more replaces the preceding one.
  if (a.id == *quantizer) a.id = to.graph()[a.id].operands[0];
  a.id = add_onnx_quantizer(to, node, a.id, stored, op);
  to.keep_storage(a.id, stored);
  give(std::move(a));
}

void clip_onnx_codes(const OnnxOperators& node) { convert<&ClipOperators::clip>(node); }

}  // namespace qtape
