#include "qtape/optim/schedule.h"

#include <algorithm>
#include <string>
#include <utility>

#include "qtape/core/float_environment.h"
#include "qtape/core/settings.h"
#include "qtape/optim/arithmetic.h"

namespace qtape {
namespace {

double ratio(int64_t part, int64_t whole) {
  return static_cast<double>(part) / static_cast<double>(whole);
}

/// Half a cosine from `start` at u = 0 to `end` at u = 1.
double anneal(double start, double end, double u) {
  return end + (start - end) * (1.0 + math::cos_pi(u)) / 2.0;
}

void require_fraction(std::string_view owner, std::string_view name, double value) {
  require<ArgumentError>(value >= 0 && value <= 1, "{}: {} must be in [0, 1], got {}", owner,
                         name, value);
}

void require_divisor(std::string_view owner, std::string_view name, double value) {
  require<ArgumentError>(std::isfinite(value) && value >= 1,
                         "{}: {} must be finite and >= 1, got {}", owner, name, value);
}

void validate(const ConstantRate&, const WarmUp&) {}

void validate(const StepDecay& shape, const WarmUp&) {
  settings::require_at_least(shape.name, "every", 1, shape.every);
  require<ArgumentError>(shape.factor > 0 && shape.factor <= 1,
                         "{}: factor must be in (0, 1], got {}", shape.name, shape.factor);
}

void validate(const Cosine& shape, const WarmUp& warm_up) {
  settings::require_at_least(shape.name, "total", 1, shape.total);
  require_fraction(shape.name, "final_fraction", shape.final_fraction);
  require<ArgumentError>(shape.total > warm_up.steps,
                         "{}: total must be above the {} steps of the warm-up, got {}",
                         shape.name, warm_up.steps, shape.total);
}

void validate(const OneCycle& shape, const WarmUp& warm_up) {
  settings::require_at_least(shape.name, "total", 1, shape.total);
  require_fraction(shape.name, "warm_fraction", shape.warm_fraction);
  require_divisor(shape.name, "initial_divisor", shape.initial_divisor);
  require_divisor(shape.name, "final_divisor", shape.final_divisor);
  require<ArgumentError>(warm_up.steps == 0,
                         "{}: has its own warm-up: expected 0 steps of WarmUp, got {}",
                         shape.name, warm_up.steps);
}

/// Rate at `step` as a fraction of the base rate, without the warm-up.
double fraction(const ConstantRate&, int64_t, int64_t) { return 1.0; }

double fraction(const StepDecay& shape, int64_t step, int64_t) {
  return math::power(shape.factor, step / shape.every);
}

double fraction(const Cosine& shape, int64_t step, int64_t warm_up) {
  if (step <= warm_up) return 1.0;
  if (step >= shape.total) return shape.final_fraction;
  return anneal(1.0, shape.final_fraction, ratio(step - warm_up, shape.total - warm_up));
}

double fraction(const OneCycle& shape, int64_t step, int64_t) {
  const double first = 1.0 / shape.initial_divisor;
  const double last = first / shape.final_divisor;
  const double peak = shape.warm_fraction * static_cast<double>(shape.total) - 1.0;
  const auto t = static_cast<double>(step);
  if (peak > 0 && t <= peak) return anneal(first, 1.0, t / peak);
  if (step >= shape.total - 1) return last;
  return anneal(1.0, last, (t - peak) / (static_cast<double>(shape.total - 1) - peak));
}

void check_known(const Section& section, const Section& known) {
  settings::refuse_unknown("Schedule", section, known);
  for (const auto& [key, tensor] : section.tensors) {
    fail<FormatError>("Schedule: tensor '{}': expected nothing, got {}", printable(key),
                      to_string(tensor.type));
  }
}

}  // namespace

double Schedule::learning_rate(int64_t step) const {
  const FloatEnvironment floats;
  validate();
  settings::require_at_least("Schedule", "step", 0, step);
  const double rate =
      base *
      std::visit([&](const auto& each) { return fraction(each, step, warm_up.steps); }, shape);
  if (step >= warm_up.steps) return rate;
  const double start = warm_up.start_fraction;
  return rate * (start + (1.0 - start) * ratio(step, warm_up.steps));
}

void Schedule::validate() const {
  settings::require_non_negative("Schedule", "base", base);
  settings::require_at_least("WarmUp", "steps", 0, warm_up.steps);
  require_fraction("WarmUp", "start_fraction", warm_up.start_fraction);
  std::visit([&](const auto& each) { qtape::validate(each, warm_up); }, shape);
}

Schedule::Shape for_run(Schedule::Shape shape, int64_t steps) {
  const auto fill = [](int64_t& number, int64_t value) {
    if (number == 0) number = std::max<int64_t>(1, value);
  };
  if (auto* decay = std::get_if<StepDecay>(&shape)) fill(decay->every, (steps + 2) / 3);
  if (auto* cosine = std::get_if<Cosine>(&shape)) fill(cosine->total, steps);
  if (auto* cycle = std::get_if<OneCycle>(&shape)) fill(cycle->total, steps);
  return shape;
}

Section to_section(const Schedule& schedule) {
  Section section;
  section.settings["base"] = schedule.base;
  settings::put_fields(schedule.warm_up, "warm_up_", section);
  std::visit(
      [&]<class Shape>(const Shape& shape) {
        section.kind = Shape::name;
        settings::put_fields(shape, "", section);
      },
      schedule.shape);
  return section;
}

Schedule schedule_from(const Section& section) {
  Schedule schedule;
  bool known = false;
  std::string names;
  for_each_alternative<Schedule::Shape>([&]<class Shape>() {
    names += (names.empty() ? "" : ", ") + std::string(Shape::name);
    if (section.kind != Shape::name) return;
    known = true;
    Shape shape;
    settings::take_fields("Schedule", section, "", shape);
    schedule.shape = shape;
  });
  require<FormatError>(known, "Schedule: unknown kind \"{}\"; expected one of {}",
                       printable(section.kind), names);
  schedule.base = settings::take<double>("Schedule", section, "base");
  settings::take_fields("Schedule", section, "warm_up_", schedule.warm_up);
  check_known(section, to_section(schedule));
  try {
    schedule.validate();
  } catch (const ArgumentError& error) {
    throw FormatError(error.what());
  }
  return schedule;
}

void require_same_schedule(const Schedule& of_run, const Schedule& of_checkpoint) {
  const Section wanted = to_section(of_run);
  const Section kept = to_section(of_checkpoint);
  require<ArgumentError>(wanted.kind == kept.kind,
                         "schedule: the checkpoint is from a run with {}, got {}", kept.kind,
                         wanted.kind);
  for (const auto& [key, value] : wanted.settings) {
    require<ArgumentError>(settings::same_setting(kept.settings.at(key), value),
                           "epochs, learning_rate, schedule and warm_up must be those of the "
                           "checkpoint: {} is {}, got {}",
                           key, settings::shown(kept.settings, key), settings::shown(value));
  }
}

}  // namespace qtape
