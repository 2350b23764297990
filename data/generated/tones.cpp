#include "qtape/data/generated/tones.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <numbers>
#include <vector>

#include "qtape/core/error.h"
#include "qtape/core/math.h"
#include "qtape/data/angles.h"
#include "qtape/data/generated/random_numbers.h"

namespace qtape::data {
namespace {

constexpr size_t rate = 8000;
constexpr size_t window = 256;
constexpr size_t hop = 160;
constexpr size_t bins = window / 2 + 1;
constexpr double lowest = 100;
constexpr double highest = 3800;
constexpr double decibels_per_step = 0.35;
constexpr uint64_t example_seed = 11;
constexpr int64_t max_count = 10000000;

enum class Melody : uint8_t {
  Silence,
  Steady,
  Rise,
  Fall,
  TwoUp,
  TwoDown,
  ThreeUp,
  ThreeDown,
  Trill,
  Beeps
};

/// A note, or silence: its pitch in semitones above the base pitch.
struct Note {
  double semitones = 0;
  bool sounds = true;
};

Note note_at(Melody melody, double t, double step) {
  const auto stair = [&](int steps, double direction) {
    return direction * step * std::floor(t * steps);
  };
  switch (melody) {
    case Melody::Silence:
      return {0, false};
    case Melody::Steady:
      return {};
    case Melody::Rise:
      return {2 * step * t};
    case Melody::Fall:
      return {-2 * step * t};
    case Melody::TwoUp:
      return {stair(2, 1)};
    case Melody::TwoDown:
      return {stair(2, -1)};
    case Melody::ThreeUp:
      return {stair(3, 1)};
    case Melody::ThreeDown:
      return {stair(3, -1)};
    case Melody::Trill:
      return {std::fmod(std::floor(t * 8), 2.0) * step};
    case Melody::Beeps:
      return {0, t < 0.38 || t >= 0.62};
  }
  return {};
}

/// Returns one second of sound.
std::vector<double> draw_sound(Melody melody, RandomNumbers& draw) {
  std::vector<double> sound(rate);
  const double length = draw.within(0.45, 0.8);
  const double onset = draw.within(0.02, 0.98 - length);
  const double pitch = 500 * math::exp(draw.within(-0.6, 0.6));
  const double step = draw.within(3, 6);
  const double loudness = 0.5 * math::exp(draw.within(-1.5, 0));
  const double second = draw.within(0, 0.5);
  const double third = draw.within(0, 0.3);
  const double noise = 0.3 * math::exp(draw.within(-2.5, 0));
  // One-pole noise filter: from white to low-pass noise.
  const double memory = draw.within(0, 0.8);
  constexpr double fade = 0.01;
  double phase = 0;
  double level = 0;
  double coloured = 0;
  for (size_t i = 0; i < rate; ++i) {
    const double time = static_cast<double>(i) / rate;
    const double t = (time - onset) / length;
    const Note note = t >= 0 && t < 1 ? note_at(melody, t, step) : Note{0, false};
    const double target = note.sounds ? loudness : 0;
    level += std::clamp(target - level, -loudness / (fade * rate), loudness / (fade * rate));
    constexpr double octave = std::numbers::ln2;
    phase += pitch * math::exp(note.semitones * octave / 12) / rate;
    coloured = memory * coloured + draw.bell();
    double sample = noise * (1 - memory) * coloured;
    if (level > 0) {
      sample += level * (sine_of_turns(phase) + second * sine_of_turns(2 * phase) +
                         third * sine_of_turns(3 * phase));
    }
    sound[i] = sample;
  }
  return sound;
}

using Frame = std::array<std::complex<double>, window>;

/// The precomputed tables of the front end.
class FrontEnd {
 public:
  FrontEnd() {
    for (size_t i = 0; i < window; ++i) {
      const double turns = static_cast<double>(i) / window;
      hann_[i] = 0.5 - 0.5 * cosine_of_turns(turns);
      if (i < window / 2) twiddles_[i] = {cosine_of_turns(turns), -sine_of_turns(turns)};
      size_t reversed = 0;
      for (size_t bit = 1; bit < window; bit *= 2) {
        reversed = 2 * reversed + ((i & bit) != 0 ? 1 : 0);
      }
      reversed_[i] = reversed;
    }
    make_bands();
  }

  /// Computes the 49 x 20 features of one second.
  void run(const std::vector<double>& sound, uint8_t* to) const {
    for (size_t f = 0; f < tone_frames; ++f) {
      Frame frame;
      for (size_t i = 0; i < window; ++i) {
        frame[reversed_[i]] = hann_[i] * sound[f * hop + i];
      }
      transform(frame);
      for (const auto& weights : bands_) *to++ = level_of(frame, weights);
    }
  }

 private:
  using Weights = std::array<double, bins>;

  static double mel(double hertz) { return math::log(1 + hertz / 700); }

  void make_bands() {
    const double low = mel(lowest);
    const double width = (mel(highest) - low) / (tone_bands + 1);
    for (size_t b = 0; b < tone_bands; ++b) {
      const double centre = low + width * static_cast<double>(b + 1);
      for (size_t k = 0; k < bins; ++k) {
        const double at = mel(static_cast<double>(k) * rate / window);
        bands_[b][k] = std::max(0.0, 1 - std::fabs(at - centre) / width);
      }
    }
  }

  /// Computes the discrete Fourier transform of values in bit-reversed order (Cooley and
  /// Tukey).
  void transform(Frame& x) const {
    for (size_t half = 1; half < window; half *= 2) {
      const size_t stride = window / (2 * half);
      for (size_t start = 0; start < window; start += 2 * half) {
        for (size_t k = 0; k < half; ++k) {
          const std::complex<double> w = twiddles_[k * stride];
          const std::complex<double> v = x[start + half + k];
          const std::complex<double> turned{w.real() * v.real() - w.imag() * v.imag(),
                                            w.real() * v.imag() + w.imag() * v.real()};
          x[start + half + k] = x[start + k] - turned;
          x[start + k] += turned;
        }
      }
    }
  }

  static uint8_t level_of(const Frame& frame, const Weights& weights) {
    // A full-scale tone has magnitude window / 4 in the bin of its frequency under a Hann
    // window.
    constexpr double full = (window / 4.0) * (window / 4.0);
    constexpr double decibels_per_neper = 10 / std::numbers::ln10;
    double power = 1e-9;
    for (size_t k = 0; k < bins; ++k) {
      if (weights[k] > 0) {
        const double re = frame[k].real();
        const double im = frame[k].imag();
        power += weights[k] * (re * re + im * im);
      }
    }
    const double decibels = decibels_per_neper * math::log(power / full);
    return static_cast<uint8_t>(
        std::clamp(std::floor(255.5 + decibels / decibels_per_step), 0.0, 255.0));
  }

  std::array<double, window> hann_{};
  std::array<std::complex<double>, window / 2> twiddles_{};
  std::array<size_t, window> reversed_{};
  std::array<Weights, tone_bands> bands_{};
};

/// `set` is 0 for training and 1 for testing.
Dataset draw_set(uint64_t seed, uint64_t set, int64_t count) {
  const FrontEnd front_end;
  constexpr int64_t features = tone_frames * tone_bands;
  std::vector<uint8_t> bands(static_cast<size_t>(count * features));
  std::vector<int32_t> labels;
  for (int64_t i = 0; i < count; ++i) {
    RandomNumbers draw(seed, (static_cast<uint64_t>(i) << 8) | set);
    const size_t label = draw.below(tone_classes);
    labels.push_back(static_cast<int32_t>(label));
    front_end.run(draw_sound(static_cast<Melody>(label), draw), bands.data() + i * features);
  }
  Dataset result;
  result.add("x", Tensor::of<uint8_t>({count, tone_frames, tone_bands}, bands));
  result.add_target("labels", Tensor::of<int32_t>({count}, labels), tone_classes);
  return result;
}

}  // namespace

Split generate_tones(uint64_t seed, int64_t train, int64_t test) {
  for (const int64_t count : {train, test}) {
    require<ArgumentError>(count >= 0 && count <= max_count,
                           "the number of generated tones must be in 0..{}, got {}", max_count,
                           count);
  }
  return {draw_set(seed, 0, train), draw_set(seed, 1, test)};
}

Split example_tones(int64_t train) { return generate_tones(example_seed, train, 1000); }

}  // namespace qtape::data
