// When quantizers begin to apply, and when their observers and the statistics of batch norms
// stop.
#pragma once

#include <cstdint>
#include <optional>

#include "qtape/core/fields.h"
#include "qtape/core/section.h"
#include "qtape/ops/core/op.h"

namespace qtape {

/// Steps count the forward passes in modes that train, as Tape::step does; the schedule changes
/// those passes alone.
struct QuantizationSchedule {
  static constexpr std::string_view name = "QuantizationSchedule";
  /// Steps in float; observers run. Learned scales start anew when they end.
  int64_t delay = 0;
  std::optional<int64_t> freeze = std::nullopt;  ///< step from which observers stop
  /// Step from which batch norms use their running statistics, as in evaluation.
  std::optional<int64_t> freeze_norms = std::nullopt;
  /// Steps whose scales are averaged evenly: by running averages instead of their decay, and by
  /// learned quantizers, which follow the data until it ends, instead of training.
  int64_t warm_up = 0;

  /// `mode` as the step `number` has it.
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

/// Throws ArgumentError, which names it, for a number of steps below 0.
void validate(const QuantizationSchedule& schedule);

/// The schedule for a model file.
Section to_section(const QuantizationSchedule& schedule);
/// Reads what `to_section` gave. Throws FormatError for another kind, a missing or unknown
/// setting and one out of its range.
QuantizationSchedule quantization_schedule_from(const Section& section);

}  // namespace qtape
