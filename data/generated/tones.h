// Generated keywords: short melodies in noise, as log-mel features.
#pragma once

#include <cstdint>

#include "qtape/data/dataset.h"

namespace qtape::data {

inline constexpr int64_t tone_frames = 49;
inline constexpr int64_t tone_bands = 20;
inline constexpr int64_t tone_classes = 10;

/// Draws one second of sound at 8 kHz per sample, as 49 frames of 20 log-mel bands in 8 bits:
/// frames of 256 samples every 160, Hann window, power spectrum, triangular bands from 100 to
/// 3800 Hz, and the logarithm, where 255 is the power of a full-scale tone and a step is 0.35
/// dB.
///
/// Classes: noise alone, a steady tone, a rising and a falling glide, two steps up and down,
/// three steps up and down, a trill, two beeps. Pitch, speed, onset, loudness, harmonics and
/// background noise are random for each sample; only the melody distinguishes classes. A pure
/// function of seed, set and index, so a smaller set is a prefix of a larger one. Throws
/// ArgumentError for counts outside 0..10000000.
Split generate_tones(uint64_t seed, int64_t train, int64_t test);

/// Returns the set on which programs train without --data: `train` samples, and 1,000 test
/// samples.
Split example_tones(int64_t train);

}  // namespace qtape::data
