// Methods by which an observer chooses a range from calibration data. A method is a struct here
// and an alternative of ObserverMethod: its settings, their checks, the statistics that it
// collects and the resulting range. Names, messages, tools and docs/quantization.md are
// generated from the list.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <variant>
#include <vector>

#include "qtape/calibrate/observer_state.h"
#include "qtape/core/fields.h"
#include "qtape/core/grid.h"

namespace qtape {

/// Smallest to largest value.
struct MinMax {
  static constexpr std::string_view name = "MinMax";
  static constexpr std::string_view summary = "smallest and largest value";
  static constexpr auto fields() { return std::tuple<>{}; }
  void check() const {}
  detail::Collected collects() const { return {}; }
  ValueRange<double> range(const detail::ChannelData& data) const;
  bool operator==(const MinMax&) const = default;
};

/// Running means of the smallest and of the largest value of each batch:
/// mean = (1 - c) mean + c new with c = averaging_constant; the first batch sets the means.
/// Batches in which a channel has no finite value do not change its means.
struct MovingAverage {
  static constexpr std::string_view name = "MovingAverage";
  static constexpr std::string_view summary =
      "running means of each batch's smallest and largest value";
  double averaging_constant = 0.01;
  static constexpr auto fields() {
    return std::tuple{field("averaging_constant", &MovingAverage::averaging_constant,
                            "weight of the new batch, in (0, 1]")};
  }
  void check() const;
  detail::Collected collects() const { return {.average_weight = averaging_constant}; }
  ValueRange<double> range(const detail::ChannelData& data) const;
  bool operator==(const MovingAverage&) const = default;
};

/// Range with the smallest squared quantization error, with each end searched separately
/// (symmetric grids have one end, max|x|). Same purpose as PyTorch's HistogramObserver.
struct Histogram {
  static constexpr std::string_view name = "Histogram";
  static constexpr std::string_view summary =
      "least squared quantization error, both ends searched";
  int64_t bins = 2048;
  static constexpr auto fields() {
    return std::tuple{
        field("bins", &Histogram::bins, "bins for each sign, a power of two in 16..65536")};
  }
  void check() const;
  detail::Collected collects() const { return {.bins = bins}; }
  ValueRange<double> range(const detail::ChannelData& data) const;
  bool operator==(const Histogram&) const = default;
};

/// Range that contains `percent` of the data, exact within one bin. Symmetric: the rest is cut
/// off at the top of |x|. Affine: half of the rest is cut off at each tail, as in ONNX Runtime.
struct Percentile {
  static constexpr std::string_view name = "Percentile";
  static constexpr std::string_view summary =
      "a given percentage of the data: of the magnitudes if symmetric, otherwise cut from both "
      "tails";
  double percent = 99.99;
  int64_t bins = 2048;
  static constexpr auto fields() {
    return std::tuple{
        field("percent", &Percentile::percent,
              "percentage of the data within the range, in (0, 100]"),
        field("bins", &Percentile::bins, "bins for each sign, a power of two in 16..65536")};
  }
  void check() const;
  detail::Collected collects() const { return {.bins = bins}; }
  ValueRange<double> range(const detail::ChannelData& data) const;
  bool operator==(const Percentile&) const = default;
};

/// Range with the smallest squared quantization error among the whole range scaled by k /
/// steps, k = 1..steps.
struct Mse {
  static constexpr std::string_view name = "Mse";
  static constexpr std::string_view summary =
      "least squared error of the range shrunk as a whole";
  int64_t steps = 100;
  int64_t bins = 2048;
  static constexpr auto fields() {
    return std::tuple{
        field("steps", &Mse::steps, "number of ranges to try, in 1..65536"),
        field("bins", &Mse::bins, "bins for each sign, a power of two in 16..65536")};
  }
  void check() const;
  detail::Collected collects() const { return {.bins = bins}; }
  ValueRange<double> range(const detail::ChannelData& data) const;
  bool operator==(const Mse&) const = default;
};

/// Range with the smallest Kullback-Leibler divergence between the clipped data and their
/// distribution on the codes of the grid: the entropy calibration of TensorRT (Migacz, GTC
/// 2017), for any grid. Zeros do not count. At least 128 bins with data are kept, or half of
/// them. Codes closer together than bins lose nothing, so if all codes are that close the range
/// is that of MinMax.
struct Kl {
  static constexpr std::string_view name = "Kl";
  static constexpr std::string_view summary =
      "least Kullback-Leibler divergence of the clipped data from its codes";
  int64_t bins = 2048;
  static constexpr auto fields() {
    return std::tuple{
        field("bins", &Kl::bins, "bins for each sign, a power of two in 16..65536")};
  }
  void check() const;
  detail::Collected collects() const { return {.bins = bins}; }
  ValueRange<double> range(const detail::ChannelData& data) const;
  bool operator==(const Kl&) const = default;
};

/// Mean -+ `deviations` standard deviations, cut off at the smallest and the largest value.
/// With values beyond 2^480 it equals MinMax.
struct ClipStd {
  static constexpr std::string_view name = "ClipStd";
  static constexpr std::string_view summary =
      "mean -+ a number of standard deviations, within the smallest and the largest value";
  double deviations = 3;
  static constexpr auto fields() {
    return std::tuple{field("deviations", &ClipStd::deviations,
                            "standard deviations to each side, finite and > 0")};
  }
  void check() const;
  detail::Collected collects() const { return {.moments = true}; }
  ValueRange<double> range(const detail::ChannelData& data) const;
  bool operator==(const ClipStd&) const = default;
};

/// Initial scale of learned quantizers with few bits: 2 mean|x| / sqrt(q_max) (Esser et al.,
/// arXiv 1902.08153), for any grid. Affine: 2 mean|x| / sqrt(n p) with n = q_max - q_min and p
/// the larger sign's share of mean|x|, and a zero point that divides the codes between the
/// signs in the same proportion.
struct Lsq {
  static constexpr std::string_view name = "Lsq";
  static constexpr std::string_view summary =
      "the scale 2 mean abs(x) / sqrt(q_max), the initial value of learned scales of few bits";
  static constexpr auto fields() { return std::tuple<>{}; }
  void check() const {}
  detail::Collected collects() const { return {.magnitudes = true}; }
  QParams<double> qparams(const detail::ChannelRecord& record, const Grid& grid) const;
  bool operator==(const Lsq&) const = default;
};

/// Given scale and zero point; needs no data.
struct FixedScale {
  static constexpr std::string_view name = "FixedScale";
  static constexpr std::string_view summary = "range of a given scale and zero point";
  double scale = 1;
  double zero_point = 0;
  static constexpr auto fields() {
    return std::tuple{
        field("scale", &FixedScale::scale, "finite and > 0"),
        field("zero_point", &FixedScale::zero_point, "a code of the grid; 0 when symmetric")};
  }
  void check() const;
  void check_grid(const Grid& grid) const;
  QParams<double> given() const { return {scale, zero_point}; }
  bool operator==(const FixedScale&) const = default;
};

/// Candidate with the smallest squared quantization error, summed over all channels and
/// measured on a histogram; on ties, the first. Candidates have their default settings.
struct Mix {
  static constexpr std::string_view name = "Mix";
  static constexpr std::string_view summary =
      "range of the candidate with the least squared error";
  std::vector<std::string> candidates = {"MinMax", "Percentile", "Mse", "Kl", "ClipStd"};
  static constexpr auto fields() {
    return std::tuple{
        field("candidates", &Mix::candidates,
              "names of methods other than Mix, Lsq and FixedScale, at least one")};
  }
  void check() const;
  bool operator==(const Mix&) const = default;
};

/// Any method of choosing a range.
using ObserverMethod = std::variant<MinMax, MovingAverage, Histogram, Percentile, Mse, Kl,
                                    ClipStd, Lsq, FixedScale, Mix>;

/// Throws ArgumentError, which names the setting, if one is out of range.
void validate(const ObserverMethod& method);
/// Returns the method with the name `name`, ignoring case, with its default settings. Throws
/// ArgumentError, which lists the names, if there is none.
ObserverMethod observer_method(std::string_view name);
/// Name of a method.
std::string_view name_of(const ObserverMethod& method);
/// Name and settings, such as "Mse {steps: 100, bins: 2048}".
std::string to_string(const ObserverMethod& method);
/// All methods that need data, with their default settings.
std::vector<ObserverMethod> methods_from_data();

namespace detail {

/// Candidates of a Mix; for any other method, the method itself.
std::vector<ObserverMethod> candidates_of(const ObserverMethod& method);
/// Statistics collected by an observer with this method.
Collected collected_by(const ObserverMethod& method);
/// Scale and zero point of a method without data, else nullopt.
std::optional<QParams<double>> given_by(const ObserverMethod& method);
/// True for methods that return scale and zero point instead of a range.
bool gives_qparams(const ObserverMethod& method);

}  // namespace detail
}  // namespace qtape
