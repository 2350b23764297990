#include "qtape/kernels/onednn/conv_faults.h"

namespace qtape::kernels {
namespace {

// The largest channel block: 16 with AVX-512, 8 with AVX2.
constexpr int64_t channel_block = 16;

bool any_axis(const Conv& conv, bool (*holds)(const ConvAxis&)) {
  return holds(conv.h) || holds(conv.w);
}

bool skips_elements(const ConvAxis& axis) {
  return axis.stride > 1 && (axis.stride > axis.kernel || axis.out == 1);
}

bool is_strided(const ConvAxis& axis) { return axis.stride > 1; }

bool contains(std::string_view name, std::string_view part) {
  return name.find(part) != std::string_view::npos;
}

}  // namespace

bool is_faulty(std::string_view name, const Conv& conv, ConvPass pass) {
  if (contains(name, "amx")) return any_axis(conv, skips_elements);
  return contains(name, "1x1") && pass == ConvPass::Filters && any_axis(conv, is_strided) &&
         conv.in_channels / conv.groups < channel_block;
}

}  // namespace qtape::kernels
