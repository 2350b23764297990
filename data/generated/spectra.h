// Generated sound of a machine: log-mel spectra, both normal and with an injected fault.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "qtape/core/enum_names.h"
#include "qtape/data/dataset.h"

namespace qtape::data {

/// Fault of a machine.
enum class Fault : uint8_t {
  None,
  ExtraTone,        ///< a weak tone between two harmonics
  MissingHarmonic,  ///< one harmonic weaker than normal
  ShiftedHarmonic,  ///< one harmonic at a different frequency
  Click,            ///< one frame with more broadband noise
  RaisedNoise       ///< a region of bands with more noise, in all frames
};

constexpr int64_t spectrum_frames = 5;
constexpr int64_t spectrum_bands = 128;
constexpr int64_t spectrum_features = spectrum_frames * spectrum_bands;

/// Samples of 5 consecutive frames of 128 log-mel bands each, frame by frame.
struct Spectra {
  Dataset samples;            ///< x f32[spectrum_features], each in [0, 1]
  std::vector<Fault> faults;  ///< one per sample

  int64_t size() const { return samples.size(); }
  std::span<const float> features() const { return samples.values<float>("x"); }
};

struct SpectraSplit {
  Spectra train;      ///< normal samples
  Spectra normal;     ///< for tests
  Spectra anomalous;  ///< for tests; fault kinds alternate, so every five consecutive samples
                      ///< contain each kind once
};

/// Draws the sounds of one machine as five frames of 128 mel bands up to 8 kHz.
///
/// Normal samples consist of harmonics and noise. The eight harmonics have a pitch near 330 Hz
/// that falls with the load and varies by 1 % between samples and by 0.2 % between frames.
/// Their strength depends on the load (-1 to 1) and on a slow beat. The broadband noise falls
/// towards high bands, has a bump, and grows with the load. Faults change the power before its
/// logarithm is taken:
///
/// | fault | strength, uniform in |
/// | --- | --- |
/// | ExtraTone | 0.3 to 2.5 times the power of the noise in the lowest band |
/// | MissingHarmonic | 0.05 to 0.6 of its power is left |
/// | ShiftedHarmonic | 1 to 4 % of its frequency, either way |
/// | Click | 1.25 to 2 times the noise, in one frame |
/// | RaisedNoise | 1.2 to 1.8 times the noise, in 12 to 31 bands |
///
/// A feature is (log power + 7) / 9, where each logarithm has random noise with a deviation of
/// 0.2, clipped to [0, 1]. The weakest faults cannot be distinguished from normal samples.
///
/// A sample depends only on (seed, set, index), so a smaller set is a prefix of a larger one.
/// The bits are the same on every machine whose sum, product and quotient follow IEEE 754, if
/// the compiler does not fuse them (-ffp-contract=off).
///
/// Throws ArgumentError unless all counts are within 0..1000000.
SpectraSplit generate_spectra(uint64_t seed, int64_t train, int64_t normal, int64_t anomalous);

}  // namespace qtape::data

namespace qtape {
template <>
inline constexpr auto enum_names<data::Fault> = std::array<std::string_view, 6>{
    "None", "ExtraTone", "MissingHarmonic", "ShiftedHarmonic", "Click", "RaisedNoise"};
}  // namespace qtape
