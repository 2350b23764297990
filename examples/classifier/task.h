// What a program trains: its settings, of which a recipe is the shared part, and the network
// that they describe.
#pragma once

#include <string>
#include <string_view>

#include "qtape/core/printable.h"
#include "qtape/core/settings.h"
#include "qtape/engine/serialize.h"
#include "qtape/examples/classifier/recipe.h"
#include "qtape/examples/data/dataset.h"

namespace qtape::examples {

/// A classifier in training. The graph's outputs are logits and loss.
struct Network {
  Graph graph;
  NodeId x;       ///< f32 [batch, features]
  NodeId labels;  ///< s32 [batch]
  NodeId logits;  ///< f32 [batch, classes]
  NodeId loss;
};

/// Settings of a program: those of its network, and a recipe. `S::program` is its name,
/// `S::about` what its help says, `S::data_kind` what it generates without --data.
template <class S>
concept ClassifierSettings = Described<S> &&
    requires(const S& settings, const data::Dataset& set) {
  { settings.recipe } -> std::convertible_to<Recipe>;
  { S::program } -> std::convertible_to<std::string_view>;
  { S::about } -> std::convertible_to<std::string_view>;
  { S::data_kind } -> std::convertible_to<std::string_view>;
  { S::generate(settings.recipe) } -> std::same_as<data::Split>;
  { make_network(settings, set) } -> std::same_as<Network>;
  validate_network(settings);
};

struct Task {
  Recipe recipe;
  Network network;   ///< for recipe.batch samples
  Section settings;  ///< all of them, as checkpoints hold them
};

/// The section `name` of a checkpoint. Throws FormatError when there is none.
const Section& section_of(const Model& checkpoint, std::string_view name);

/// Throws ArgumentError, which names it, for a setting that cannot be.
template <ClassifierSettings S>
void validate(const S& settings) {
  require_limits(settings);
  require_limits(settings.recipe);
  validate_network(settings);
}

/// What reports call the data that `settings` name.
template <ClassifierSettings S>
std::string data_name(const S& settings) {
  return settings.recipe.data.empty() ? fmt::format("generated {}", S::data_kind)
                                      : settings.recipe.data;
}

/// The data that `settings` name. Throws IoError or FormatError.
template <ClassifierSettings S>
data::Split load_data(const S& settings) {
  if (!settings.recipe.data.empty()) return data::read_idx_directory(settings.recipe.data);
  return S::generate(settings.recipe);
}

/// Throws ArgumentError for images that the network cannot be made for.
template <ClassifierSettings S>
Task task_of(const S& settings, const data::Dataset& train) {
  Section section{std::string(S::program), {}, {}};
  settings::put_fields(settings, "", section);
  settings::put_fields(settings.recipe, "", section);
  return {settings.recipe, make_network(settings, train), std::move(section)};
}

/// The settings that a checkpoint was made with. Throws FormatError for files of other
/// programs.
template <ClassifierSettings S>
S settings_of(const Model& checkpoint) {
  constexpr std::string_view place = "/sections/settings";
  const Section& section = section_of(checkpoint, "settings");
  require<FormatError>(section.kind == S::program, "{}/kind: expected \"{}\", got \"{}\"",
                       place, S::program, printable(section.kind));
  S settings;
  settings::take_fields(place, section, "", settings);
  settings::take_fields(place, section, "", settings.recipe);
  try {
    validate(settings);
  } catch (const ArgumentError& error) {
    fail<FormatError>("{}: {}", place, error.what());
  }
  return settings;
}

}  // namespace qtape::examples
