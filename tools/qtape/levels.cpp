#include "qtape/tools/qtape/levels.h"

namespace qtape::tool {

RunnerFactories target_levels(const VerifiedFile& file) {
  RunnerFactories all;
  for (const Target& target : targets()) all.merge(target.levels(file));
  return all;
}

std::vector<Level> known_levels() {
  std::vector<Level> all(default_levels.begin(), default_levels.end());
  for (const auto& [level, factory] : target_levels()) all.push_back(level);
  return all;
}

}  // namespace qtape::tool
