// Gradient clipping, between a backward pass and an optimizer's step.
#pragma once

#include "qtape/core/thread_count.h"
#include "qtape/engine/parameters.h"

namespace qtape {

/// The L2 norm of all gradients of `parameters` as one vector. Summed in double over fixed
/// blocks in entry order, so the bits do not depend on `threads` >= 1 or the processor. NaN if
/// a gradient is NaN, Infinity if one is infinite (or an f64 one beyond 1e154). Throws
/// ArgumentError.
double gradient_norm(const Parameters& parameters, int threads = default_threads());

/// Scales all gradients by max_norm / norm where their norm is above `max_norm`, finite and >
/// 0; a norm that is not finite scales nothing. Returns the norm before. Pascanu, Mikolov and
/// Bengio, arXiv 1211.5063, algorithm 1. Throws ArgumentError.
double clip_by_norm(Parameters& parameters, double max_norm, int threads = default_threads());

/// Clamps every gradient to [-limit, limit]; NaN stays. `limit` is finite and > 0. Throws
/// ArgumentError.
void clip_by_value(Parameters& parameters, double limit, int threads = default_threads());

}  // namespace qtape
