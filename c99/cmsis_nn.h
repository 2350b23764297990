// Sources of an installed CMSIS-NN with which exported C is compiled.
#pragma once

#include <string>
#include <vector>

#include "qtape/core/requantization.h"

namespace qtape {

/// A source tree of CMSIS-NN and the compiler arguments for it.
struct CmsisNn {
  std::vector<std::string> flags;    ///< include folders, and the macro for single rounding if
                                     ///< needed
  std::vector<std::string> sources;  ///< sources that contain the functions that exported C
                                     ///< calls

  /// Returns the tree named by the environment variable QTAPE_CMSIS_NN, for one requantization.
  /// Throws Error if the variable is not set or does not name a CMSIS-NN tree.
  static CmsisNn of_environment(Requantization requantization);
  /// True if QTAPE_CMSIS_NN is set.
  static bool is_given();
};

struct CCompiler;
/// Adds that tree to the sources of `compiler`. Throws like `of_environment`.
void add_cmsis_nn(CCompiler& compiler, Requantization requantization);

}  // namespace qtape
