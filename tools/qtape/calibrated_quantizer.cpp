#include "qtape/tools/qtape/calibrated_quantizer.h"

#include <fmt/format.h>

#include <algorithm>

#include "qtape/core/printable.h"

namespace qtape::tool {

CalibratedQuantizer report_of(const NodeCalibration& node) {
  const auto [low, high] = std::ranges::minmax(node.qparams, {}, &QParams<double>::scale);
  CalibratedQuantizer report{
      .label = node.label,
      .observer =
          std::visit([](const auto& each) { return std::string(each.name); }, node.method),
      .channels = static_cast<int64_t>(node.qparams.size()),
      .smallest_scale = low.scale,
      .largest_scale = high.scale,
      .non_finite = node.non_finite};
  if (node.qparams.size() == 1) report.zero_point = low.zero_point;
  return report;
}

void print(const CalibratedQuantizer& report) {
  fmt::print("  {:<28} {:<14} scale {:.4g}", printable(report.label), report.observer,
             report.smallest_scale);
  if (report.channels > 1) fmt::print(" to {:.4g}", report.largest_scale);
  if (report.zero_point) fmt::print(", zero point {}", *report.zero_point);
  if (report.non_finite > 0) fmt::print(", {} NaN or infinite skipped", report.non_finite);
  fmt::print("\n");
}

}  // namespace qtape::tool
