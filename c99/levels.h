// Levels of verification that run programs as C99.
#pragma once

#include "qtape/deploy/level.h"

namespace qtape {

/// L4: the program written as C99, compiled by this machine's compiler.
inline constexpr Level c_level = {4, "L4 C"};
/// L6: C99 on kernels of CMSIS-NN, of the tree that QTAPE_CMSIS_NN names.
inline constexpr Level cmsis_nn_level = {6, "L6 CMSIS-NN"};

/// Runners of both for VerifyOptions::runners. Making one throws Error where the compiler is
/// missing or fails, L6 also where QTAPE_CMSIS_NN names no tree.
RunnerFactories c_levels();

}  // namespace qtape
