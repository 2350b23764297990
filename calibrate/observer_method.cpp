#include "qtape/calibrate/observer_method.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>
#include <utility>

#include "qtape/core/error.h"
#include "qtape/core/printable.h"

namespace qtape {
namespace {

constexpr int64_t max_steps = 65536;

bool same_letters(std::string_view a, std::string_view b) {
  const auto lower = [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  };
  return std::ranges::equal(a, b, {}, lower, lower);
}

/// The method called `name`, or nothing.
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

void require_above_zero(std::string_view owner, std::string_view name, double value) {
  require<ArgumentError>(std::isfinite(value) && value > 0,
                         "{}: {} must be finite and > 0, got {}", owner, name, value);
}

template <class Method>
void require_bins(const Method& method) {
  const int64_t bins = method.bins;
  require<ArgumentError>(
      bins >= 16 && bins <= 65536 && std::has_single_bit(static_cast<uint64_t>(bins)),
      "{}: bins must be a power of two in 16..65536, got {}", method.name, bins);
}

void check_settings(const MinMax&) {}

void check_settings(const MovingAverage& method) {
  require<ArgumentError>(method.averaging_constant > 0 && method.averaging_constant <= 1,
                         "{}: averaging_constant must be in (0, 1], got {}", method.name,
                         method.averaging_constant);
}

void check_settings(const Histogram& method) { require_bins(method); }

void check_settings(const Percentile& method) {
  require<ArgumentError>(method.percent > 0 && method.percent <= 100,
                         "{}: percent must be in (0, 100], got {}", method.name,
                         method.percent);
  require_bins(method);
}

void check_settings(const Mse& method) {
  require<ArgumentError>(method.steps >= 1 && method.steps <= max_steps,
                         "{}: steps must be in 1..{}, got {}", method.name, max_steps,
                         method.steps);
  require_bins(method);
}

void check_settings(const Kl& method) { require_bins(method); }

void check_settings(const ClipStd& method) {
  require_above_zero(method.name, "deviations", method.deviations);
}

void check_settings(const FixedScale& method) {
  require_above_zero(method.name, "scale", method.scale);
  const double zero_point = method.zero_point;
  require<ArgumentError>(std::isfinite(zero_point) && std::trunc(zero_point) == zero_point,
                         "{}: zero_point must be an integer, got {}", method.name, zero_point);
}

bool can_be_candidate(std::string_view name) {
  const std::optional<ObserverMethod> found = find_method(name);
  return found && !std::holds_alternative<Mix>(*found) &&
         !std::holds_alternative<FixedScale>(*found);
}

void check_settings(const Mix& method) {
  require<ArgumentError>(!method.candidates.empty(),
                         "{}: candidates must name at least one method, got none", method.name);
  for (const std::string& candidate : method.candidates) {
    require<ArgumentError>(
        can_be_candidate(candidate),
        "{}: candidates must be of {} without Mix and FixedScale, got \"{}\"", method.name,
        method_names(), printable(candidate));
  }
}

}  // namespace

void validate(const ObserverMethod& method) {
  std::visit([](const auto& each) { check_settings(each); }, method);
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

}  // namespace qtape
