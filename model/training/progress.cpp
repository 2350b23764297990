#include "qtape/model/training/progress.h"

#include <fmt/format.h>

#include <cmath>

#include "qtape/core/printable.h"
#include "qtape/core/settings.h"

namespace qtape {
namespace {

constexpr int64_t largest_count = int64_t{1} << 60;
// Location of the progress in checkpoints, for messages.
constexpr std::string_view progress_place = "/sections/progress";

// Key of the option `epochs`.
constexpr const char* planned_epochs = "planned_epochs";

/// Settings by their keys in the section.
std::map<std::string, int64_t> kept_settings(const RunSettings& run) {
  return {{"batch", run.batch},
          {planned_epochs, run.epochs},
          {"samples", run.samples},
          {"seed", static_cast<int64_t>(run.seed)}};
}

int64_t count_in(const Section& section, const std::string& key) {
  return settings::take<int64_t>(progress_place, section, key);
}

double real_in(const Section& section, const std::string& key) {
  return settings::take<double>(progress_place, section, key);
}

std::string loss_key(int64_t epoch) { return fmt::format("loss {}", epoch); }

void require_same_run(const Section& section, const RunSettings& run) {
  require<ArgumentError>(
      shards_of(section) == run.shards.total,
      "the checkpoint is from a run with {} shards, which cannot be continued with {}",
      shards_of(section), run.shards.total);
  for (const auto& [key, value] : kept_settings(run)) {
    if (!section.settings.contains(key)) continue;  // checkpoints had none at first
    const int64_t kept = count_in(section, key);
    require<ArgumentError>(kept == value, "{}: the checkpoint is from a run with {}, got {}",
                           key == planned_epochs ? "epochs" : key, kept, value);
  }
  for (const auto& [key, value] : run.others) {
    if (!section.settings.contains(key)) continue;
    const auto kept = settings::take<std::string>(progress_place, section, key);
    require<ArgumentError>(kept == value, "{}: the checkpoint is from a run with {}, got {}",
                           key, printable(kept), value);
  }
}

}  // namespace

Section to_section(const RunProgress& progress, const RunSettings& run) {
  Section section{"progress",
                  {{"step", progress.step},
                   {"loss", progress.loss},
                   {"batches", progress.batches},
                   {"skipped", progress.skipped},
                   {"non_finite", progress.non_finite},
                   {"epochs", static_cast<int64_t>(progress.epochs.size())}},
                  {}};
  if (run.shards.any()) section.settings["shards"] = run.shards.total;
  for (const auto& [key, value] : kept_settings(run)) section.settings[key] = value;
  for (const auto& [key, value] : run.others) section.settings[key] = value;
  for (const EpochResult& each : progress.epochs) {
    // Settings are finite.
    if (std::isfinite(each.loss)) section.settings[loss_key(each.epoch)] = each.loss;
    if (each.score && std::isfinite(*each.score)) {
      section.settings[fmt::format("score {}", each.epoch)] = *each.score;
    }
  }
  return section;
}

RunProgress progress_from(const Section& section, const RunSettings& run) {
  require_same_run(section, run);
  RunProgress progress{.step = count_in(section, "step"),
                       .loss = real_in(section, "loss"),
                       .batches = count_in(section, "batches"),
                       .skipped = count_in(section, "skipped"),
                       .non_finite = count_in(section, "non_finite")};
  const int64_t finished = count_in(section, "epochs");
  const auto within = [](int64_t value, int64_t most) { return value >= 0 && value <= most; };
  require<FormatError>(within(progress.step, run.steps) && within(finished, run.epochs) &&
                           within(progress.batches, progress.step) &&
                           within(progress.skipped, progress.step) &&
                           within(progress.non_finite, largest_count),
                       "{}: step {} of {}, epoch {} of {}, or a count is out of range",
                       progress_place, progress.step, run.steps, finished, run.epochs);
  for (int64_t epoch = 1; epoch <= finished; ++epoch) {
    EpochResult each{.epoch = epoch};
    if (section.settings.contains(loss_key(epoch))) {
      each.loss = real_in(section, loss_key(epoch));
    }
    const std::string score = fmt::format("score {}", epoch);
    if (section.settings.contains(score)) each.score = real_in(section, score);
    progress.epochs.push_back(each);
  }
  settings::refuse_unknown(progress_place, section, to_section(progress, run));
  return progress;
}

int64_t shards_of(const Section& progress) {
  if (!progress.settings.contains("shards")) return 1;
  return count_in(progress, "shards");
}

}  // namespace qtape
