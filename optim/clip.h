// Gradient clipping, between backward and the step of an optimizer.
#pragma once

#include <span>

#include "qtape/core/thread_count.h"
#include "qtape/engine/parameters.h"
#include "qtape/optim/optimizer.h"

namespace qtape {

/// L2 norm of all gradients of `parameters` as one vector, without those of parameters that
/// `groups` freeze. Summed in double over fixed blocks
/// in entry order, so the bits depend neither on `threads` >= 1 nor on the processor. NaN if a
/// gradient is NaN; infinity if one is infinite (or an f64 one beyond 1e154). Throws
/// ArgumentError if `threads` < 1.
double gradient_norm(const Parameters& parameters, int threads = default_threads(),
                     std::span<const ParameterGroup> groups = {});

/// If the norm of these gradients exceeds `max_norm`, scales them by max_norm / norm (Pascanu,
/// Mikolov and Bengio, arXiv 1211.5063, algorithm 1). A norm that is not finite scales nothing.
/// Returns the norm before scaling. Throws ArgumentError unless `max_norm` is finite and > 0.
double clip_by_norm(Parameters& parameters, double max_norm, int threads = default_threads(),
                    std::span<const ParameterGroup> groups = {});

/// Clamps every gradient to [-limit, limit]; NaN stays NaN. Throws ArgumentError unless `limit`
/// is finite and > 0.
void clip_by_value(Parameters& parameters, double limit, int threads = default_threads());

}  // namespace qtape
