// Learning-rate schedules: the rate of each step as a pure function of the number of steps
// taken.
#pragma once

#include <cstdint>
#include <string_view>
#include <tuple>
#include <variant>

#include "qtape/core/fields.h"
#include "qtape/core/section.h"

namespace qtape {

/// Constant rate.
struct ConstantRate {
  static constexpr std::string_view name = "ConstantRate";
  static constexpr auto fields() { return std::tuple<>{}; }
  bool operator==(const ConstantRate&) const = default;
};

/// base rate * factor^floor(t / every).
struct StepDecay {
  static constexpr std::string_view name = "StepDecay";
  int64_t every = 0;
  double factor = 0.1;
  static constexpr auto fields() {
    return std::tuple{field("every", &StepDecay::every,
                            "steps between two decays, >= 1; 0: a third of the run of `fit`"),
                      field("factor", &StepDecay::factor, "factor of one decay, in (0, 1]")};
  }
  bool operator==(const StepDecay&) const = default;
};

/// Half a cosine from the base rate down to `final_fraction` of it, constant from step `total`
/// on. Loshchilov and Hutter, arXiv 1608.03983, equation 5, without restarts.
struct Cosine {
  static constexpr std::string_view name = "Cosine";
  int64_t total = 0;
  double final_fraction = 0;
  static constexpr auto fields() {
    return std::tuple{field("total", &Cosine::total,
                            "steps of the run, including the warm-up, >= 1; 0: those of `fit`"),
                      field("final_fraction", &Cosine::final_fraction,
                            "rate at the end as a fraction of the base rate, in [0, 1]")};
  }
  bool operator==(const Cosine&) const = default;
};

/// Half a cosine from base / initial_divisor up to base, then another down to base /
/// initial_divisor / final_divisor. Smith and Topin, arXiv 1708.07120. The peak is at step
/// warm_fraction total - 1 and the end at step total - 1, as in PyTorch's OneCycleLR.
struct OneCycle {
  static constexpr std::string_view name = "OneCycle";
  int64_t total = 0;
  double warm_fraction = 0.3;
  double initial_divisor = 25;
  double final_divisor = 1e4;
  static constexpr auto fields() {
    return std::tuple{
        field("total", &OneCycle::total, "steps of the run, >= 1; 0: those of `fit`"),
        field("warm_fraction", &OneCycle::warm_fraction,
              "fraction of the steps in which the rate rises, in [0, 1]"),
        field("initial_divisor", &OneCycle::initial_divisor,
              "base rate divided by the rate at step 0, >= 1"),
        field("final_divisor", &OneCycle::final_divisor,
              "rate at step 0 divided by the rate at the end, >= 1")};
  }
  bool operator==(const OneCycle&) const = default;
};

/// Linear increase from `start_fraction` of the rate at step 0 to the full rate at step
/// `steps`.
struct WarmUp {
  int64_t steps = 0;
  double start_fraction = 0;
  static constexpr auto fields() {
    return std::tuple{field("steps", &WarmUp::steps, "number of warm-up steps, 0 for none"),
                      field("start_fraction", &WarmUp::start_fraction,
                            "fraction of the rate at step 0, in [0, 1]")};
  }
  bool operator==(const WarmUp&) const = default;
};

/// Learning rate of a run: `Schedule{.base = 1e-3, .shape = Cosine{.total = 5000}, .warm_up =
/// {.steps = 200}}`. Steps count from the start of the run: a StepDecay decays at the same
/// steps with and without a warm-up, and a Cosine decreases from the end of the warm-up to
/// `total`. A OneCycle has its own warm-up and allows no other.
struct Schedule {
  using Shape = std::variant<ConstantRate, StepDecay, Cosine, OneCycle>;

  double base = 1e-3;  ///< highest rate, finite and >= 0
  Shape shape = ConstantRate{};
  WarmUp warm_up = {};

  /// Rate for the step after `step` >= 0 steps. Throws ArgumentError for a negative step and as
  /// `validate` does.
  double learning_rate(int64_t step) const;
  /// Throws ArgumentError, which names the setting, if one is out of range.
  void validate() const;

  bool operator==(const Schedule&) const = default;
};

/// Returns the shape with the numbers of steps that are 0 set for a run of `steps`;
/// `learning_rate` refuses 0.
Schedule::Shape for_run(Schedule::Shape shape, int64_t steps);

/// Section of `schedule` for a checkpoint; its kind is the name of the shape.
Section to_section(const Schedule& schedule);
/// Reads a section written by `to_section`. Throws FormatError for an unknown kind, a missing
/// or unknown setting, a setting out of range, and any tensor.
Schedule schedule_from(const Section& section);

/// Throws ArgumentError unless the schedule of a run is that of its checkpoint.
void require_same_schedule(const Schedule& of_run, const Schedule& of_checkpoint);

}  // namespace qtape
