// Quantizers with the scales of a calibration, as `calibrate` reports them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>

#include "qtape/calibrate/calibration.h"
#include "qtape/core/fields.h"

namespace qtape::tool {

struct CalibratedQuantizer {
  std::string label;
  std::string observer;
  int64_t channels = 0;
  double smallest_scale = 0;
  double largest_scale = 0;
  std::optional<double> zero_point = {};
  int64_t non_finite = 0;

  static constexpr auto fields() {
    using Q = CalibratedQuantizer;
    return std::tuple{
        field("label", &Q::label, "of the node"),
        field("observer", &Q::observer, "from which the scales are"),
        field("channels", &Q::channels, "scales"),
        field("smallest_scale", &Q::smallest_scale, "over channels"),
        field("largest_scale", &Q::largest_scale, "over channels"),
        field("zero_point", &Q::zero_point, "of a single channel; null for several"),
        field("non_finite", &Q::non_finite, "elements that were skipped")};
  }
};

CalibratedQuantizer report_of(const NodeCalibration& node);
/// Prints a line with its label, observer, scales and zero point.
void print(const CalibratedQuantizer& report);

}  // namespace qtape::tool
