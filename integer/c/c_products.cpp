#include "qtape/integer/c/c_products.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "qtape/kernels/quantize/pack.h"

namespace qtape {

CWeights write_weights(CNode& node, std::span<const int8_t> codes, int64_t rows, int bits,
                       int64_t slack) {
  const int64_t n = rows == 0 ? 0 : std::ssize(codes) / rows;
  const auto filled_up = static_cast<size_t>(kernels::packed_bytes(slack, bits));
  if (bits == 8) {
    std::vector<int8_t> all(codes.begin(), codes.end());
    all.insert(all.end(), filled_up, int8_t{0});
    return {node.source.array<int8_t>(node.name, "weights", all), "int8_t", n};
  }
  std::vector<uint8_t> all;
  for (int64_t row = 0; row < rows; ++row) {
    const auto packed = kernels::pack_codes(
        codes.subspan(static_cast<size_t>(row * n), static_cast<size_t>(n)), bits);
    for (std::byte each : packed) all.push_back(static_cast<uint8_t>(each));
  }
  all.insert(all.end(), filled_up, uint8_t{0});
  return {node.source.array<uint8_t>(node.name, "weights", all), "uint8_t",
          kernels::packed_bytes(n, bits)};
}

std::string dot_kernel(CNode& node, int bits, std::string_view x, std::string_view sum) {
  return node.source.kernel(fmt::format("dot_{}", bits), fmt::format("{}_{}", x, sum),
                            {{"X", std::string(x)}, {"ACC", std::string(sum)}});
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
  const std::string name = node.source.constant(
      node.name, "window", node.source.prefix() + "_window",
      fmt::format("{}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}", images, h.in, w.in,
                  channels, h.kernel, w.kernel, h.stride, w.stride, h.dilation, w.dilation,
                  h.begin, w.begin, h.out, w.out),
      56);
  return fmt::format("&{}", name);
}

}  // namespace qtape
