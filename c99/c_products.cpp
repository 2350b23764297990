#include "qtape/c99/c_products.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "qtape/kernels/quantize/pack.h"

namespace qtape {
namespace {

/// How codes are loaded on Arm: on Helium as halfwords and as words, with the DSP extension as
/// the halfwords of two words.
struct ArmLoads {
  std::string_view x;
  std::string_view halfwords;
  std::string_view words;
  std::string_view dsp;
};

constexpr ArmLoads arm_loads[] = {
    {"int8_t", "vldrbq_z_s16(x + i, p)", "vldrbq_z_s32(from + k, lanes)",
     "const int32_t codes = @_word(x + i);\n"
     "      const int32_t even = __sxtb16(codes), odd = @_odd_bytes(codes);"},
    {"uint8_t", "vreinterpretq_s16_u16(vldrbq_z_u16(x + i, p))",
     "vreinterpretq_s32_u32(vldrbq_z_u32(from + k, lanes))",
     "const uint32_t codes = (uint32_t)@_word(x + i);\n"
     "      const int32_t even = (int32_t)__uxtb16(codes);\n"
     "      const int32_t odd = (int32_t)__uxtb16(codes >> 8);"},
    {"int16_t", "vldrhq_z_s16(x + i, p)", "vldrhq_z_s32(from + k, lanes)",
     "const int32_t low = @_word(x + i), high = @_word(x + i + 2);\n"
     "      const int32_t even = @_low_halves(low, high), odd = @_high_halves(low, high);"}};

/// Returns `text` with each `@` replaced by the prefix.
std::string with_prefix(CNode& node, std::string_view text) {
  std::string all;
  for (char c : text) {
    if (c == '@') {
      all += node.source.prefix();
    } else {
      all += c;
    }
  }
  return all;
}

/// Returns the Arm part of dot_8; empty if there is none for this type.
std::string dot_on_arm(CNode& node, std::string_view x, std::string_view sum) {
  const auto* found = std::ranges::find(arm_loads, x, &ArmLoads::x);
  if (found == std::end(arm_loads)) return {};
  node.source.kernel("arm", "");
  const bool wide = sum == "int64_t";
  return node.source.text("dot_8_arm",
                          {{"HELIUM", std::string(found->halfwords)},
                           {"HELIUM_ADD", wide ? "vmlaldavaq_p_s16" : "vmladavaq_p_s16"},
                           {"DSP", with_prefix(node, found->dsp)},
                           {"DSP_ADD", wide ? "__smlald" : "__smlad"}});
}

}  // namespace

CWeights write_weights(CNode& node, std::span<const int8_t> codes, int64_t rows, int bits,
                       int64_t slack) {
  const int64_t n = rows == 0 ? 0 : std::ssize(codes) / rows;
  const auto filled_up = static_cast<size_t>(kernels::packed_bytes(slack, bits));
  if (bits == 8) {
    std::vector<int8_t> all(codes.begin(), codes.end());
    all.insert(all.end(), filled_up, int8_t{0});
    return {node.source.weights<int8_t>(node.name, all), "int8_t", n};
  }
  std::vector<uint8_t> all;
  for (int64_t row = 0; row < rows; ++row) {
    const auto packed = kernels::pack_codes(
        codes.subspan(static_cast<size_t>(row * n), static_cast<size_t>(n)), bits);
    for (std::byte each : packed) all.push_back(static_cast<uint8_t>(each));
  }
  all.insert(all.end(), filled_up, uint8_t{0});
  return {node.source.weights<uint8_t>(node.name, all), "uint8_t",
          kernels::packed_bytes(n, bits)};
}

std::string dot_kernel(CNode& node, int bits, std::string_view x, std::string_view sum) {
  CParameters parameters = {{"X", std::string(x)}, {"ACC", std::string(sum)}};
  if (bits == 8) parameters.emplace_back("ARM", dot_on_arm(node, x, sum));
  return node.source.kernel(fmt::format("dot_{}", bits), fmt::format("{}_{}", x, sum),
                            parameters);
}

std::string depthwise_products(CNode& node, int bits, std::string_view x, std::string_view sum,
                               std::string_view difference) {
  CParameters parameters = {{"ACC", std::string(sum)}, {"V", std::string(difference)}};
  if (bits < 8) {
    parameters.emplace_back("UNPACK", node.source.kernel(fmt::format("unpack_{}", bits), ""));
    return node.source.text("depthwise_packed", parameters);
  }
  const auto* found = std::ranges::find(arm_loads, x, &ArmLoads::x);
  if (found == std::end(arm_loads) || sum != "int32_t") {
    return node.source.text("depthwise_bytes", parameters);
  }
  node.source.kernel("arm", "");
  parameters.emplace_back("HELIUM", std::string(found->words));
  parameters.emplace_back("OTHERS", node.source.text("depthwise_bytes", parameters));
  return node.source.text("depthwise_helium", parameters);
}

COffsets write_offsets(CNode& node, std::string_view name, std::span<const int64_t> values) {
  constexpr auto most = int64_t{std::numeric_limits<int32_t>::max()};
  const bool narrow =
      std::ranges::all_of(values, [&](int64_t v) { return v >= -most && v <= most; });
  if (!narrow) return {node.source.array<int64_t>(node.name, name, values), "int64_t"};
  const std::vector<int32_t> all(values.begin(), values.end());
  return {node.source.array<int32_t>(node.name, name, all), "int32_t"};
}

std::string write_window(CNode& node, int64_t images, int64_t channels, const Window& window) {
  node.source.kernel("window", "");
  const auto& [h, w] = window;
  for (const int64_t each : {h.stride, w.stride, h.dilation, w.dilation}) {
    check(each <= std::numeric_limits<int32_t>::max(),
          "a stride or dilation of {} exceeds the s32 of C", each);
  }
  const std::string name = node.source.constant(
      node.name, "window",
      {.type = node.source.prefix() + "_window",
       .first = "images",
       .words = c_words_of(images, h.in, w.in, channels, h.kernel, w.kernel, h.stride, w.stride,
                           h.dilation, w.dilation, h.begin, w.begin, h.out, w.out)});
  return fmt::format("&{}", name);
}

}  // namespace qtape
