#include "qtape/calibrate/observer_method.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>
#include <utility>

#include "qtape/calibrate/range_search.h"
#include "qtape/core/error.h"
#include "qtape/core/printable.h"
#include "qtape/core/settings.h"
#include "qtape/kernels/quantize/learned_start.h"

namespace qtape {
namespace {

constexpr int64_t max_steps = 65536;

/// A method defines its checks, and one of: the statistics that it collects and the resulting
/// range or scale and zero point; a result without data; or candidates to choose from.
template <class Method>
concept IsMethod = Described<Method> && std::equality_comparable<Method> &&
    requires(const Method& method, const detail::ChannelData& data) {
  Method::name;
  Method::summary;
  method.check();
} &&(
    requires(const Method& method, const detail::ChannelData& data) {
      { method.collects() } -> std::same_as<detail::Collected>;
      { method.range(data) } -> std::same_as<ValueRange<double>>;
    } ||
    requires(const Method& method, const detail::ChannelRecord& record, const Grid& grid) {
      { method.collects() } -> std::same_as<detail::Collected>;
      { method.qparams(record, grid) } -> std::same_as<QParams<double>>;
    } ||
    requires(const Method& method) {
      { method.given() } -> std::same_as<QParams<double>>;
    } ||
    requires(const Method& method) { method.candidates; });
static_assert([]<class... Methods>(const std::variant<Methods...>*) {
  return (IsMethod<Methods> && ...);
}(static_cast<const ObserverMethod*>(nullptr)));

bool same_letters(std::string_view a, std::string_view b) {
  const auto lower = [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  };
  return std::ranges::equal(a, b, {}, lower, lower);
}

/// Method with the name `name`, or nullopt.
std::optional<ObserverMethod> find_method(std::string_view name) {
  std::optional<ObserverMethod> found;
  for_each_alternative<ObserverMethod>([&]<class Method>() {
    if (same_letters(name, Method::name)) found = Method{};
  });
  return found;
}

std::string method_names() {
  std::string names;
  for_each_alternative<ObserverMethod>([&]<class Method>() {
    names += (names.empty() ? "" : ", ") + std::string(Method::name);
  });
  return names;
}

void require_bins(std::string_view owner, int64_t bins) {
  require<ArgumentError>(
      bins >= 16 && bins <= 65536 && std::has_single_bit(static_cast<uint64_t>(bins)),
      "{}: bins must be a power of two in 16..65536, got {}", owner, bins);
}

bool can_be_candidate(const ObserverMethod& method) {
  return !std::holds_alternative<Mix>(method) && !detail::gives_qparams(method);
}

double shown(double value) { return value; }
int64_t shown(int64_t value) { return value; }
std::string shown(const std::vector<std::string>& names) {
  return fmt::format("[{}]", printable(fmt::format("{}", fmt::join(names, ", "))));
}

}  // namespace

ValueRange<double> MinMax::range(const detail::ChannelData& data) const {
  return data.record.range;
}

void MovingAverage::check() const {
  require<ArgumentError>(averaging_constant > 0 && averaging_constant <= 1,
                         "{}: averaging_constant must be in (0, 1], got {}", name,
                         averaging_constant);
}

ValueRange<double> MovingAverage::range(const detail::ChannelData& data) const {
  return data.record.average;
}

void Histogram::check() const { require_bins(name, bins); }

ValueRange<double> Histogram::range(const detail::ChannelData& data) const {
  return data.search.min_error_of_ends();
}

void Percentile::check() const {
  require<ArgumentError>(percent > 0 && percent <= 100,
                         "{}: percent must be in (0, 100], got {}", name, percent);
  require_bins(name, bins);
}

ValueRange<double> Percentile::range(const detail::ChannelData& data) const {
  return data.search.percentile(percent);
}

void Mse::check() const {
  require<ArgumentError>(steps >= 1 && steps <= max_steps, "{}: steps must be in 1..{}, got {}",
                         name, max_steps, steps);
  require_bins(name, bins);
}

ValueRange<double> Mse::range(const detail::ChannelData& data) const {
  return data.search.min_error(steps);
}

void Kl::check() const { require_bins(name, bins); }

ValueRange<double> Kl::range(const detail::ChannelData& data) const {
  return data.search.min_divergence();
}

void ClipStd::check() const { settings::require_positive(name, "deviations", deviations); }

ValueRange<double> ClipStd::range(const detail::ChannelData& data) const {
  const detail::ChannelRecord& record = data.record;
  const auto [min, max] = record.range;
  if (record.range.max_abs() > detail::moment_limit) return record.range;
  const double reach =
      deviations * std::sqrt(record.squares / static_cast<double>(record.count));
  return {std::clamp(record.mean - reach, min, max), std::clamp(record.mean + reach, min, max)};
}

QParams<double> Lsq::qparams(const detail::ChannelRecord& record, const Grid& grid) const {
  return kernels::lsq_start(
      {record.positive, record.negative, static_cast<double>(record.count)}, record.range,
      grid);
}

void FixedScale::check() const {
  settings::require_positive(name, "scale", scale);
  require<ArgumentError>(std::isfinite(zero_point) && std::trunc(zero_point) == zero_point,
                         "{}: zero_point must be an integer, got {}", name, zero_point);
}

void FixedScale::check_grid(const Grid& grid) const {
  const bool symmetric = grid.scheme == Scheme::Symmetric;
  const int32_t least = symmetric ? 0 : grid.limits.q_min;
  const int32_t most = symmetric ? 0 : grid.limits.q_max;
  require<ArgumentError>(zero_point >= least && zero_point <= most,
                         "{}: zero_point must be in {}..{} on this grid, got {}", name, least,
                         most, zero_point);
  require<ArgumentError>(!grid.power_of_two || is_power_of_two(scale),
                         "{}: scale must be a power of two on this grid, got {}", name, scale);
}

void Mix::check() const {
  require<ArgumentError>(!candidates.empty(),
                         "{}: candidates must name at least one method, got none", name);
  for (const std::string& candidate : candidates) {
    const std::optional<ObserverMethod> found = find_method(candidate);
    require<ArgumentError>(
        found && can_be_candidate(*found),
        "{}: candidates must be among {} except Mix, Lsq and FixedScale, got \"{}\"", name,
        method_names(), printable(candidate));
  }
}

std::vector<ObserverMethod> detail::candidates_of(const ObserverMethod& method) {
  const auto* mix = std::get_if<Mix>(&method);
  if (mix == nullptr) return {method};
  std::vector<ObserverMethod> candidates;
  for (const std::string& name : mix->candidates) candidates.push_back(observer_method(name));
  return candidates;
}

detail::Collected detail::collected_by(const ObserverMethod& method) {
  Collected all;
  // A Mix compares errors on a histogram for any candidates.
  if (std::holds_alternative<Mix>(method)) all.bins = Histogram{}.bins;
  for (const ObserverMethod& candidate : candidates_of(method)) {
    std::visit(
        [&](const auto& each) {
          if constexpr (requires { each.collects(); }) {
            const Collected one = each.collects();
            all.bins = std::max(all.bins, one.bins);
            if (one.average_weight) all.average_weight = one.average_weight;
            all.moments = all.moments || one.moments;
            all.magnitudes = all.magnitudes || one.magnitudes;
          }
        },
        candidate);
  }
  return all;
}

std::optional<QParams<double>> detail::given_by(const ObserverMethod& method) {
  return std::visit(
      [](const auto& each) -> std::optional<QParams<double>> {
        if constexpr (requires { each.given(); }) return each.given();
        return std::nullopt;
      },
      method);
}

bool detail::gives_qparams(const ObserverMethod& method) {
  return std::visit(
      [](const auto& each) {
        return requires { each.given(); }
        || requires(const ChannelRecord& record, const Grid& grid) {
          each.qparams(record, grid);
        };
      },
      method);
}

void validate(const ObserverMethod& method) {
  std::visit([](const auto& each) { each.check(); }, method);
}

ObserverMethod observer_method(std::string_view name) {
  std::optional<ObserverMethod> found = find_method(name);
  require<ArgumentError>(found.has_value(),
                         "unknown observer method \"{}\"; expected one of {}", printable(name),
                         method_names());
  return *std::move(found);
}

std::string_view name_of(const ObserverMethod& method) {
  return std::visit([](const auto& each) { return each.name; }, method);
}

std::string to_string(const ObserverMethod& method) {
  std::string text(name_of(method));
  std::visit(
      [&]<class Method>(const Method& each) {
        std::string list;
        for_each_field<Method>([&](const auto& field) {
          list += fmt::format("{}{}: {}", list.empty() ? "" : ", ", field.key,
                              shown(each.*field.member));
        });
        if (!list.empty()) text += fmt::format(" {{{}}}", list);
      },
      method);
  return text;
}

std::vector<ObserverMethod> methods_from_data() {
  std::vector<ObserverMethod> methods;
  for_each_alternative<ObserverMethod>([&]<class Method>() {
    if (!detail::given_by(Method{})) methods.emplace_back(Method{});
  });
  return methods;
}

}  // namespace qtape
