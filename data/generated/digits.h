// Generated 28x28 images of digits that resemble handwriting: training data without a download.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "qtape/core/enum_names.h"
#include "qtape/data/dataset.h"

namespace qtape::data {

/// Difficulty of generated digits.
enum class DigitKind : uint8_t {
  Plain,
  /// Faint, noisy, more distorted, and crossed by several strokes of the same pen: a task on
  /// which float networks of these sizes stay below 90 %, so that the effect of few bits is
  /// visible.
  Hard
};

/// Draws `train_count` and `test_count` digits of 28x28 pixels, bright ink on a dark ground.
///
/// Every digit has several written forms; each image bends, turns, slants, scales, shifts and
/// thickens one of them and adds noise and, in half of the images, a stray stroke. Linear
/// classifiers stay near 88 % on 7000 + 1000 images, a 784-256-128-10 network reaches 96 %.
///
/// Every ten consecutive labels are a permutation of 0..9. An image depends only on (seed,
/// train or test, index), so a smaller set is a prefix of a larger one. The bytes are the same
/// on every machine whose sum, product, quotient and square root follow IEEE 754, if the
/// compiler does not fuse them (-ffp-contract=off).
///
/// Throws ArgumentError unless both counts are within 0..10000000.
Split generate_digits(uint64_t seed, int64_t train_count, int64_t test_count,
                      DigitKind kind = DigitKind::Plain);

/// Returns the digits that programs use if no data are given: one fixed data set with 1,000
/// test images, or 4,000 hard ones. Throws like generate_digits.
Split example_digits(int64_t train_count, DigitKind kind = DigitKind::Plain);

}  // namespace qtape::data

namespace qtape {
template <>
inline constexpr auto enum_names<data::DigitKind> =
    std::array<std::string_view, 2>{"Plain", "Hard"};
}  // namespace qtape
