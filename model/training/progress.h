// Progress of a run of fit, as a section of its checkpoints.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "qtape/core/section.h"
#include "qtape/model/fit.h"
#include "qtape/ops/core/shards.h"

namespace qtape {

/// The settings of a run that its checkpoints are compared with.
struct RunSettings {
  int64_t steps = 0;
  int64_t epochs = 0;
  int64_t batch = 0;
  int64_t samples = 0;
  uint64_t seed = 0;
  Shards shards = {};
  std::map<std::string, std::string> others = {};  ///< texts by name, see settings_of
};

/// Finished steps of a run.
struct RunProgress {
  int64_t step = 0;
  double loss = 0;      ///< sum over the batches of the epoch that has begun
  int64_t batches = 0;  ///< number of these batches with a finite loss
  int64_t skipped = 0;
  int64_t non_finite = 0;
  std::vector<EpochResult> epochs = {};
};

Section to_section(const RunProgress& progress, const RunSettings& run);

/// Returns the progress that a checkpoint of the run holds. Throws ArgumentError if it is of a
/// run with another batch, seed, number of samples or of shards, or with other settings that
/// change its bits, unless the checkpoint has none of them; and FormatError for numbers
/// that no run has, and for settings that are missing or unknown.
RunProgress progress_from(const Section& section, const RunSettings& run);

/// Returns the number of shards of the run whose progress a checkpoint has.
int64_t shards_of(const Section& progress);

}  // namespace qtape
