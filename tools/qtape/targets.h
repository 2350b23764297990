// The list of export targets.
#pragma once

#include <span>
#include <string>

#include "qtape/deploy/level.h"
#include "qtape/tools/qtape/commands.h"

namespace qtape::tool {

/// The file that is verified.
struct VerifiedFile {
  std::string tflite = {};  ///< its bytes if it is a `.tflite` model, which a level may run
};

/// A target of `qtape export`.
struct Target {
  Command (*add_export)(CLI::App& app);  ///< declares its command below `export`
  /// Returns the runners of its levels of arithmetic.
  RunnerFactories (*levels)(const VerifiedFile& file);
};

/// All targets, in the order of the help.
std::span<const Target> targets();

}  // namespace qtape::tool
