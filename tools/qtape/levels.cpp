#include "qtape/tools/qtape/levels.h"

#include "qtape/tools/qtape/targets.h"

namespace qtape::tool {

RunnerFactories target_levels() {
  RunnerFactories all;
  for (const Target& target : targets()) all.merge(target.levels());
  return all;
}

std::vector<Level> known_levels() {
  std::vector<Level> all(usual_levels.begin(), usual_levels.end());
  for (const auto& [level, factory] : target_levels()) all.push_back(level);
  return all;
}

}  // namespace qtape::tool
