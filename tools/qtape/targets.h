// The list of export targets.
#pragma once

#include <span>

#include "qtape/deploy/level.h"
#include "qtape/tools/qtape/commands.h"

namespace qtape::tool {

/// A target of `qtape export`.
struct Target {
  Command (*add_export)(CLI::App& app);  ///< declares its command below `export`
  RunnerFactories (*levels)();           ///< returns the runners of its levels of arithmetic
};

/// All targets, in the order of the help.
std::span<const Target> targets();

}  // namespace qtape::tool
