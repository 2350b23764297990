// Task of a training program: its settings, which include a recipe, and the graph that they
// describe.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "qtape/core/printable.h"
#include "qtape/core/settings.h"
#include "qtape/data/files.h"
#include "qtape/data/generated/digits.h"
#include "qtape/data/holdout.h"
#include "qtape/engine/graph.h"
#include "qtape/examples/classifier/training_settings.h"

namespace qtape::examples {

/// Settings of a program: those of its network, and a recipe. `S::program` is its name,
/// `S::about` the description in its help, `S::data_kind` the data that it generates without
/// --data.
template <class S>
concept ClassifierSettings = Described<S> &&
    requires(const S& settings, const data::Dataset& set) {
  { settings.recipe } -> std::convertible_to<TrainingSettings>;
  { S::program } -> std::convertible_to<std::string_view>;
  { S::about } -> std::convertible_to<std::string_view>;
  { S::data_kind } -> std::convertible_to<std::string_view>;
  { settings.generate() } -> std::same_as<data::Split>;
  { make_network(settings, set) } -> std::same_as<Graph>;
  validate_network(settings);
};

/// Throws ArgumentError, which names the setting, for an invalid setting.
template <ClassifierSettings S>
void validate(const S& settings) {
  require_limits(settings);
  require_limits(settings.recipe);
  validate_network(settings);
}

/// Returns the name of the data in reports.
template <ClassifierSettings S>
std::string data_name(const S& settings) {
  if (!settings.recipe.data.empty()) return settings.recipe.data;
  std::string kind(S::data_kind);
  if constexpr (requires { settings.digits; }) {
    if (settings.digits == data::DigitKind::Hard) kind = "hard " + kind;
  }
  return "generated " + kind;
}

/// Loads the data that `settings` name. Throws IoError or FormatError, and ArgumentError for a
/// holdout that leaves no training samples.
template <ClassifierSettings S>
data::Split load_data(const S& settings) {
  data::Split data =
      settings.recipe.data.empty() ? settings.generate() : data::mnist(settings.recipe.data);
  return data::held_out(data, settings.recipe.holdout);
}

/// Returns all settings as a section of a checkpoint.
template <ClassifierSettings S>
Section settings_section(const S& settings) {
  Section section{std::string(S::program), {}, {}};
  settings::put_fields(settings, "", section);
  settings::put_fields(settings.recipe, "", section);
  return section;
}

/// Returns the settings with which a checkpoint was made. Throws FormatError for files of other
/// programs.
template <ClassifierSettings S>
S settings_of(const std::map<std::string, Section>& sections) {
  constexpr std::string_view place = "/sections/settings";
  const Section& section = settings::section_of(sections, "settings");
  require<FormatError>(section.kind == S::program, "{}/kind: expected \"{}\", got \"{}\"",
                       place, S::program, printable(section.kind));
  S settings;
  settings::take_fields(place, section, "", settings);
  settings::take_fields(place, section, "", settings.recipe);
  settings::refuse_unknown(place, section, settings_section(settings));
  try {
    validate(settings);
  } catch (const ArgumentError& error) {
    fail<FormatError>("{}: {}", place, error.what());
  }
  return settings;
}

}  // namespace qtape::examples
