#include "qtape/onnx/export/quant_node.h"

#include <iterator>

namespace qtape {
namespace {

int64_t lowest_of(const QuantRange& range) {
  if (!range.is_signed) return 0;
  return -(int64_t{1} << (range.bits - 1)) + (range.narrow ? 1 : 0);
}

int64_t highest_of(const QuantRange& range) {
  if (range.is_signed) return (int64_t{1} << (range.bits - 1)) - 1;
  return (int64_t{1} << range.bits) - (range.narrow ? 2 : 1);
}

}  // namespace

std::optional<QuantRange> quant_range(int64_t low, int64_t high) {
  constexpr int max_bits = 32;
  for (int bits = 1; bits <= max_bits; ++bits) {
    for (const bool is_signed : {false, true}) {
      for (const bool narrow : {false, true}) {
        // A signed bit and a narrow unsigned one have other meanings.
        if (bits == 1 && (is_signed || narrow)) continue;
        const QuantRange range{bits, is_signed, narrow};
        if (lowest_of(range) == low && highest_of(range) == high) return range;
      }
    }
  }
  return std::nullopt;
}

QuantRange smallest_signed_range(int64_t low, int64_t high) {
  QuantRange range{.bits = 2, .narrow = true};
  while (high > highest_of(range) || low < lowest_of(range) - 1) ++range.bits;
  range.narrow = low >= lowest_of(range);
  return range;
}

std::string add_quant(OnnxWriter& to, const std::string& x, const QuantRange& range,
                      const std::vector<float>& scales, int rank, const std::string& name) {
  Shape shape = {};
  if (scales.size() > 1) {
    std::vector<int64_t> extents(static_cast<size_t>(rank), 1);
    extents[0] = std::ssize(scales);
    shape = Shape(extents);
  }
  const std::string scale = to.constant<float>(name + "_scale", DType::F32, shape, scales);
  const std::string zero = to.scalar(name + "_zero", DType::F32, 0.0f);
  const std::string bits =
      to.scalar(name + "_bits", DType::F32, static_cast<float>(range.bits));
  onnx::NodeProto& node = to.node("Quant", {x, scale, zero, bits}, name);
  node.set_domain(std::string(qonnx_domain));
  set_attribute(node, "signed", int64_t{range.is_signed});
  set_attribute(node, "narrow", int64_t{range.narrow});
  set_attribute(node, "rounding_mode", "ROUND");
  return node.output(0);
}

}  // namespace qtape
