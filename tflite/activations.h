// Limits of codes by the activations that operators apply to their results.
#pragma once

#include <optional>

#include "qtape/integer/core/integer_value.h"
#include "qtape/tflite/schema.h"

namespace qtape::tflite {

/// Returns the grid of s8 or s16 codes with the limits of `activation`, as TensorFlow Lite
/// computes them. Throws GraphError for TANH and SIGN_BIT.
CodeGrid limited(CodeGrid grid, Activation activation);

/// Throws GraphError for an activation that is not read.
[[noreturn]] void fail_activation(Activation activation);

/// Returns the activation whose limits are those of `grid`, if there is one.
std::optional<Activation> activation_of(const CodeGrid& grid);

}  // namespace qtape::tflite
