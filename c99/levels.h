// Levels of verification that run programs as C99.
#pragma once

#include "qtape/deploy/level.h"

namespace qtape {

/// L4: the program written as C99, compiled by this machine's compiler.
inline constexpr Level c_level = {4, "L4 C"};
/// L6: C99 on the kernels of CMSIS-NN from the source tree that QTAPE_CMSIS_NN names.
inline constexpr Level cmsis_nn_level = {6, "L6 CMSIS-NN"};

/// Runners of both for VerifyOptions::runners. Creating one throws Error if the compiler is
/// missing or fails; for L6, also if QTAPE_CMSIS_NN does not name a source tree.
RunnerFactories c_levels();

}  // namespace qtape
