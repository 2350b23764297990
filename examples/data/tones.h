// Generated keywords: short melodies in noise, and what a microphone's front end makes of them.
#pragma once

#include <cstdint>

#include "qtape/data/dataset.h"

namespace qtape::data {

inline constexpr int64_t tone_frames = 49;
inline constexpr int64_t tone_bands = 20;
inline constexpr int64_t tone_classes = 10;

/// One second of sound at 8 kHz each, as 49 frames of 20 log-mel bands in 8 bits: frames of 256
/// samples every 160, Hann window, power spectrum, triangular bands from 100 to 3800 Hz, and
/// the logarithm, where 255 is the power of a full-scale tone and a step is 0.35 dB.
///
/// Classes: noise alone, a steady tone, a rising and a falling glide, two steps up and down,
/// three steps up and down, a trill, two beeps. Pitch, speed, onset, loudness, harmonics and
/// the noise beside them are drawn for each; the melody alone tells classes apart. A pure
/// function of seed, set and index, so a smaller set is a prefix of a larger one. Throws
/// ArgumentError for counts outside 0..10000000.
Split generate_tones(uint64_t seed, int64_t train, int64_t test);

/// The set that programs train on without --data: `train` samples, 1,000 to test.
Split example_tones(int64_t train);

}  // namespace qtape::data
