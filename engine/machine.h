// The machine and the libraries that compute.
#pragma once

#include <string>

namespace qtape {

/// Properties on which the bits of floats depend besides the program. Integers do not depend on
/// them.
struct Machine {
  std::string processor;   ///< its name, or "unknown"
  std::string isa;         ///< instruction set of qtape's kernels, see isa()
  std::string onednn;      ///< version of oneDNN
  std::string onednn_isa;  ///< instruction set up to which oneDNN generates code
  std::string qtape;       ///< version of qtape and of its compiler
};

/// Properties of this process.
Machine machine();

}  // namespace qtape
