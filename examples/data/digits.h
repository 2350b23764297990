// Handwriting-like 28x28 digits drawn by the program: training data that needs no download.
#pragma once

#include <cstdint>

#include "qtape/data/dataset.h"

namespace qtape::data {

/// Draws `train_count` and `test_count` digits of 28x28 pixels, bright ink on a dark ground.
///
/// Every digit has several written forms; each image bends, turns, slants, scales, shifts and
/// thickens one of them and adds noise and, in half of the images, a stray stroke. Linear
/// classifiers stay near 88 % on 7000 + 1000 images, a 784-256-128-10 network reaches 96 %.
///
/// Every ten consecutive labels are a permutation of 0..9. An image depends only on (seed,
/// train or test, index), so a smaller set is a prefix of a larger one. The bytes are the same
/// on every machine whose sum, product, quotient and square root follow IEEE 754, if the
/// compiler fuses none of them (-ffp-contract=off).
///
/// Throws ArgumentError unless both counts are within 0..10000000.
Split generate_digits(uint64_t seed, int64_t train_count, int64_t test_count);

/// The digits that the programs use where no data is given: one fixed data set with 1,000 test
/// images. Throws as generate_digits does.
Split example_digits(int64_t train_count);

}  // namespace qtape::data
