// Steps at which quantizers start to apply, and at which observers and the statistics of batch
// norms are frozen.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "qtape/ops/core/op.h"

namespace qtape {

/// Steps count forward passes in modes that train, as Tape::step does. The schedule affects
/// only these passes.
struct QuantizationSchedule {
  static constexpr std::string_view name = "QuantizationSchedule";
  /// Number of float steps, in which observers run. Learned scales are initialised again at
  /// their end.
  int64_t delay = 0;
  std::optional<int64_t> freeze = std::nullopt;  ///< step from which observers are off
  /// Step from which batch norms use their running statistics, as in evaluation.
  std::optional<int64_t> freeze_norms = std::nullopt;
  /// Number of steps that weigh equally in scales. Running averages use their plain mean
  /// instead of a decay, and learned quantizers follow the data instead of being trained.
  int64_t warm_up = 0;

  /// `mode` as modified by the schedule in step `number`.
  Mode mode_at(Mode mode, uint64_t number) const {
    if (!mode.train) return mode;
    if (number < static_cast<uint64_t>(delay)) mode.quantize = false;
    if (freeze && number >= static_cast<uint64_t>(*freeze)) mode.observe = false;
    if (freeze_norms && number >= static_cast<uint64_t>(*freeze_norms)) {
      mode.batch_statistics = false;
    }
    return mode;
  }
  bool operator==(const QuantizationSchedule&) const = default;
};

/// Throws ArgumentError, which names the setting, for a negative number of steps.
void validate(const QuantizationSchedule& schedule);

}  // namespace qtape
