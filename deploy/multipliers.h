// Multipliers of the nodes of integer programs, as text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "qtape/core/requantization.h"
#include "qtape/integer/program/integer_program.h"

namespace qtape {

/// A node and its program.
struct NodeIn {
  const IntegerProgram& program;
  ProgramNodeId id;
};

/// A factor with which a node requantizes, by channel, as the program's requantization uses it.
struct NodeMultiplier {
  std::string_view what;  ///< `multiplier`, or the part of a sum to which it belongs
  /// Of one channel or of all: `1518500250 >> 38`, a factor in f32, or the quotient of two
  /// scales.
  std::vector<std::string> channels;
};
/// Returns the multipliers of a node; empty if its op does not depend on the requantization.
std::vector<NodeMultiplier> multipliers_of(NodeIn node);

/// True if the multipliers of a requantization are integers and shifts.
bool in_fixed_point(Requantization requantization);

/// Returns the shortest text that reads as `value` in f32, if it is an f32, otherwise in f64.
std::string number_text(double value);

}  // namespace qtape
