// Handwriting-like 28x28 digits drawn by the program: training data that needs no download.
#pragma once

#include <cstdint>

#include "qtape/examples/data/dataset.h"

namespace qtape::data {

/// Draws `train_count` and `test_count` digits of 28x28 pixels, ink 255 on background 0.
///
/// Every digit has several written forms; each image bends, turns, slants, scales, shifts and
/// thickens one of them and adds noise and stray strokes. Every ten consecutive labels are a
/// permutation of 0..9. An image depends only on (seed, train or test, index), so a smaller set
/// is a prefix of a larger one. The bytes are the same on every machine that rounds
/// + - * / sqrt as IEEE 754 says (compile without contraction: -ffp-contract=off).
///
/// Throws ArgumentError unless both counts are within 0..10000000.
Split generate_digits(uint64_t seed, int64_t train_count, int64_t test_count);

}  // namespace qtape::data
