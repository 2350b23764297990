// Levels of arithmetic that commands run: those of the library and of every target.
#pragma once

#include <string_view>
#include <vector>

#include "qtape/deploy/level.h"
#include "qtape/tools/qtape/targets.h"

namespace qtape::tool {

/// Runners of the levels of all targets, for one file.
RunnerFactories target_levels(const VerifiedFile& file = {});

/// All levels in the order of their numbers.
std::vector<Level> known_levels();

/// `L4` of `L4 C`.
inline std::string_view number_of(const Level& level) {
  return level.name.substr(0, level.name.find(' '));
}
/// `C` of `L4 C`.
inline std::string_view short_name(const Level& level) {
  return level.name.substr(level.name.find(' ') + 1);
}

}  // namespace qtape::tool
