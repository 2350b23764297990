#include "qtape/tools/qtape/train_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <sstream>
#include <utility>

#include "qtape/core/pattern.h"
#include "qtape/core/printable.h"
#include "qtape/core/settings.h"
#include "qtape/programs/console/standard_output.h"

namespace qtape::tool {
namespace {

/// Kind of the section of a checkpoint that holds the settings of the command.
constexpr std::string_view settings_kind = "qtape train";
constexpr std::string_view place = "/sections/settings";

/// Returns the learning rate of a checkpoint whose settings do not state it.
double rate_of_schedule(const Model& model) {
  const Section& schedule = settings::section_of(model.sections(), "schedule");
  return settings::take<double>("/sections/schedule", schedule, "base");
}

/// Returns the factors on the learning rate of a checkpoint; earlier ones have none.
std::map<std::string, double> rates_in(const Section& section) {
  std::map<std::string, double> rates;
  for (const auto& [name, rate] : section.tensors) {
    require<FormatError>(rate.type == TensorType{DType::F64, {}},
                         "{}/tensors/{}: expected f64[], got {}", place, printable(name),
                         to_string(rate.type));
    rates[name] = rate.values<double>()[0];
  }
  return rates;
}

/// Returns the settings with those that earlier checkpoints do not have.
Section completed(Section section) {
  if (!section.settings.contains("freeze")) section.settings["freeze"] = "";
  return section;
}

}  // namespace

Section settings_of(const TrainCommand& command, const std::optional<Model>& teacher) {
  Section section{std::string(settings_kind), {}, {}};
  settings::put_fields<TrainRun>(command, "", section);
  settings::put_fields<FewBits>(command, "", section);
  settings::put_fields(command.recipe, "", section);
  section.settings["holdout"] = command.data.holdout;
  section.settings["teacher"] = teacher ? teacher->parameters().sha256() : "";
  for (const auto& [name, rate] : command.small_rates) {
    section.tensors[name] = Tensor::of<double>({}, std::span(&rate, 1));
  }
  return section;
}

std::vector<ParameterGroup> groups_of(const TrainCommand& command,
                                      const std::vector<std::string>& learned_scales) {
  std::vector<ParameterGroup> groups;
  std::istringstream patterns(command.frozen);
  for (std::string each; std::getline(patterns, each, ',');) {
    groups.push_back({.pattern = each, .frozen = true});
  }
  const auto is_frozen = [&, count = groups.size()](const std::string& name) {
    return std::ranges::any_of(std::span(groups).first(count), [&](const ParameterGroup& each) {
      return matches(each.pattern, name);
    });
  };
  std::map<std::string, double> rates = command.small_rates;
  for (const std::string& name : learned_scales) {
    const auto small = rates.extract(name);
    const double rate = command.scales_rate * (small ? small.mapped() : 1);
    if (is_frozen(name)) continue;
    groups.push_back({.pattern = name, .learning_rate_scale = rate, .weight_decay = 0.0});
  }
  for (const auto& [name, rate] : rates) {
    if (!is_frozen(name)) groups.push_back({.pattern = name, .learning_rate_scale = rate});
  }
  return groups;
}

void take_settings(TrainCommand& command, const Model& model,
                   const std::optional<Model>& teacher) {
  require<ArgumentError>(model.sections().contains("progress"),
                         "--resume: {} is not a checkpoint", command.model);
  const auto found = model.sections().find("settings");
  if (found == model.sections().end()) {
    return console::print("{} has no settings: it continues with those of the command line\n",
                          command.model);
  }
  const Section section = completed(found->second);
  require<ArgumentError>(section.kind == settings_kind,
                         "--resume: {} is a checkpoint of {}, which continues it",
                         command.model, printable(section.kind));
  TrainCommand resumed = command;
  naming<FormatError>(command.model, [&] {
    settings::take_fields<TrainRun>(place, section, "", resumed);
    settings::take_fields<FewBits>(place, section, "", resumed);
    settings::take_fields(place, section, "", resumed.recipe);
    resumed.small_rates = rates_in(section);
    // Earlier checkpoints do not have these.
    if (!resumed.learning_rate) resumed.learning_rate = rate_of_schedule(model);
    if (section.settings.contains("holdout")) {
      resumed.data.holdout = settings::take<int64_t>(place, section, "holdout");
    }
    settings::refuse_unknown(place, section, settings_of(resumed, teacher));
  });
  // A path would be that of another file, or of none, in another folder.
  const std::string taught = std::exchange(resumed.teacher, command.teacher);
  require<ArgumentError>(taught.empty() || teacher, "--teacher is missing: the run has one");
  require<ArgumentError>(taught == (teacher ? teacher->parameters().sha256() : ""),
                         "--teacher: the checkpoint was made with another one");
  const bool same = resumed.data.holdout == command.data.holdout;
  require<ArgumentError>(same || !programs::given(*command.line, "--holdout"),
                         "--holdout: the checkpoint is from a run with {}, got {}",
                         resumed.data.holdout, command.data.holdout);
  programs::require_same<TrainRun>(*command.line, command, resumed);
  programs::require_same<FewBits>(*command.line, command, resumed);
  programs::require_same(*command.line, command.recipe, resumed.recipe);
  command = resumed;
}

}  // namespace qtape::tool
