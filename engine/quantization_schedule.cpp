#include "qtape/engine/quantization_schedule.h"

#include "qtape/core/settings.h"

namespace qtape {
void validate(const QuantizationSchedule& s) {
  constexpr std::string_view owner = QuantizationSchedule::name;
  settings::require_at_least(owner, "delay", 0, s.delay);
  settings::require_at_least(owner, "freeze", 0, s.freeze.value_or(0));
  settings::require_at_least(owner, "freeze_norms", 0, s.freeze_norms.value_or(0));
  settings::require_at_least(owner, "warm_up", 0, s.warm_up);
}

Section to_section(const QuantizationSchedule& schedule) {
  Section section{std::string(QuantizationSchedule::name),
                  {{"delay", schedule.delay}, {"warm_up", schedule.warm_up}},
                  {}};
  if (schedule.freeze) section.settings["freeze"] = *schedule.freeze;
  if (schedule.freeze_norms) section.settings["freeze_norms"] = *schedule.freeze_norms;
  return section;
}

QuantizationSchedule quantization_schedule_from(const Section& section) {
  require<FormatError>(section.kind == QuantizationSchedule::name,
                       "kind: expected \"{}\", got \"{}\"", QuantizationSchedule::name,
                       printable(section.kind));
  QuantizationSchedule schedule;
  constexpr std::string_view name = QuantizationSchedule::name;
  schedule.delay = settings::take<int64_t>(name, section, "delay");
  schedule.warm_up = settings::take<int64_t>(name, section, "warm_up");
  if (section.settings.contains("freeze"))
    schedule.freeze = settings::take<int64_t>(name, section, "freeze");
  if (section.settings.contains("freeze_norms"))
    schedule.freeze_norms = settings::take<int64_t>(name, section, "freeze_norms");
  for (const auto& [key, value] : section.settings) {
    require<FormatError>(
        key == "delay" || key == "warm_up" || key == "freeze" || key == "freeze_norms",
        "{}: unknown setting '{}'; expected delay, freeze, freeze_norms or warm_up",
        QuantizationSchedule::name, printable(key));
  }
  try {
    validate(schedule);
  } catch (const ArgumentError& error) {
    fail<FormatError>("{}", error.what());
  }
  return schedule;
}

}  // namespace qtape
