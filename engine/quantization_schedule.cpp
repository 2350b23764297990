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

}  // namespace qtape
