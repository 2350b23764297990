#include "qtape/tools/qtape/levels.h"

#include "qtape/c99/levels.h"
#include "qtape/onnx/levels.h"

namespace qtape::tool {

RunnerFactories target_levels() {
  RunnerFactories all = c_levels();
  all.merge(onnx_levels());
  return all;
}

std::vector<Level> known_levels() {
  std::vector<Level> all(usual_levels.begin(), usual_levels.end());
  for (const auto& [level, factory] : target_levels()) all.push_back(level);
  return all;
}

}  // namespace qtape::tool
