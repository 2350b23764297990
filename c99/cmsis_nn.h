// CMSIS-NN where it is installed: sources that exported C is compiled with.
#pragma once

#include <string>
#include <vector>

#include "qtape/core/requantization.h"

namespace qtape {

/// A source tree of CMSIS-NN and how a compiler is told of it.
struct CmsisNn {
  std::vector<std::string> flags;    ///< folders of headers, and the rounding
  std::vector<std::string> sources;  ///< of what exported C calls

  /// The tree that the environment's QTAPE_CMSIS_NN names, for one requantization. Throws Error
  /// where it names none, or what is none.
  static CmsisNn of_environment(Requantization requantization);
  /// Whether QTAPE_CMSIS_NN is set.
  static bool is_given();
};

struct CCompiler;
/// Has `compiler` compile that tree as well. Throws as `of_environment`.
void add_cmsis_nn(CCompiler& compiler, Requantization requantization);

}  // namespace qtape
