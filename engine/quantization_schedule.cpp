#include "qtape/engine/quantization_schedule.h"

namespace qtape {
namespace {

/// The setting `key`; throws FormatError for one that is missing or no integer.
int64_t take(const Section& section, const std::string& key) {
  const auto found = section.settings.find(key);
  const int64_t* value =
      found == section.settings.end() ? nullptr : std::get_if<int64_t>(&found->second);
  require<FormatError>(value != nullptr, "{}: setting '{}': expected an integer",
                       QuantizationSchedule::name, key);
  return *value;
}

}  // namespace

void validate(const QuantizationSchedule& s) {
  const auto check_steps = [](std::string_view what, int64_t steps) {
    require<ArgumentError>(steps >= 0, "{}: {} must be at least 0, got {}",
                           QuantizationSchedule::name, what, steps);
  };
  check_steps("delay", s.delay);
  check_steps("freeze", s.freeze.value_or(0));
  check_steps("warm_up", s.warm_up);
}

Section to_section(const QuantizationSchedule& schedule) {
  Section section{std::string(QuantizationSchedule::name),
                  {{"delay", schedule.delay}, {"warm_up", schedule.warm_up}},
                  {}};
  if (schedule.freeze) section.settings["freeze"] = *schedule.freeze;
  return section;
}

QuantizationSchedule quantization_schedule_from(const Section& section) {
  require<FormatError>(section.kind == QuantizationSchedule::name,
                       "kind: expected \"{}\", got \"{}\"", QuantizationSchedule::name,
                       section.kind);
  QuantizationSchedule schedule;
  schedule.delay = take(section, "delay");
  schedule.warm_up = take(section, "warm_up");
  if (section.settings.contains("freeze")) schedule.freeze = take(section, "freeze");
  for (const auto& [key, value] : section.settings) {
    require<FormatError>(key == "delay" || key == "warm_up" || key == "freeze",
                         "{}: unknown setting '{}'; expected delay, freeze or warm_up",
                         QuantizationSchedule::name, key);
  }
  try {
    validate(schedule);
  } catch (const ArgumentError& error) {
    fail<FormatError>("{}", error.what());
  }
  return schedule;
}

}  // namespace qtape
