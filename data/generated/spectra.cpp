#include "qtape/data/generated/spectra.h"

#include <algorithm>
#include <cstddef>

#include "qtape/core/error.h"
#include "qtape/core/math.h"
#include "qtape/data/generated/random_numbers.h"

namespace qtape::data {
namespace {

constexpr int64_t max_count = 1'000'000;
constexpr size_t harmonics = 8;
constexpr size_t frames = spectrum_frames;
constexpr size_t bands = spectrum_bands;
constexpr uint64_t fault_kinds = 5;

/// Power of each harmonic at mean load, and the share that depends on the load.
constexpr std::array<double, harmonics> power_of = {1.0, 0.5, 0.7, 0.25, 0.4, 0.12, 0.2, 0.08};
constexpr std::array<double, harmonics> load_of = {0.3, 0.5, 0.2, 0.8, 0.4, 0.9, 0.6, 1.0};

/// Returns the position of `hertz` on an axis of mel bands up to 8 kHz.
double band_at(double hertz) {
  constexpr double mel_of_8_khz = 2.5182;  // log(1 + 8000 / 700)
  return static_cast<double>(bands) * math::log(1.0 + hertz / 700.0) / mel_of_8_khz;
}

/// Returns a triangle wave of period 1 between -1 and 1.
double triangle(double phase) {
  const double fraction = phase - static_cast<double>(static_cast<int64_t>(phase));
  return fraction < 0.5 ? 4.0 * fraction - 1.0 : 3.0 - 4.0 * fraction;
}

using Frame = std::array<double, bands>;
using Sound = std::array<Frame, frames>;  // power

/// Adds a peak that extends 2.5 bands to each side.
void add_peak(Frame& frame, double center, double power) {
  constexpr double half_width = 2.5;
  const auto last = static_cast<double>(bands - 1);
  const auto begin = static_cast<size_t>(std::clamp(center - half_width, 0.0, last));
  const auto end = static_cast<size_t>(std::clamp(center + half_width, 0.0, last));
  for (size_t band = begin; band <= end; ++band) {
    const double distance = (static_cast<double>(band) - center) / half_width;
    const double shape = std::max(0.0, 1.0 - distance * distance);
    frame[band] += power * shape * shape;
  }
}

/// Deviation of a harmonic from normal.
struct Deviation {
  size_t harmonic = harmonics;  // none
  double power = 1.0;
  double pitch = 1.0;
};

/// Parameters that all frames of a sample share.
struct Machine {
  double pitch;  // Hz
  double load;   // -1..1
  double floor;  // power of the noise in the lowest band
  double beat_phase;
  double beat_rate;  // periods per frame
  double beat_depth;
  std::array<double, frames> jitter;  // of the pitch
};

Machine draw_machine(RandomNumbers& draw) {
  Machine machine{};
  machine.load = draw.within(-1.0, 1.0);
  machine.pitch = 330.0 * (1.0 - 0.02 * machine.load + draw.three_uniforms(0.01));
  machine.floor = 0.012 * (1.0 + 0.3 * machine.load + draw.three_uniforms(0.1));
  machine.beat_phase = draw.within(0.0, 1.0);
  machine.beat_rate = draw.within(0.05, 0.15);
  machine.beat_depth = draw.within(0.1, 0.3);
  for (double& each : machine.jitter) each = 1.0 + draw.three_uniforms(0.002);
  return machine;
}

double floor_at(const Machine& machine, size_t band) {
  const auto place = static_cast<double>(band) / static_cast<double>(bands);
  const double bump = std::max(0.0, 1.0 - 16.0 * (place - 0.7) * (place - 0.7));
  return machine.floor * (1.0 / (1.0 + 3.0 * place) + 0.5 * bump);
}

Sound hum(const Machine& machine, const Deviation& deviation) {
  Sound sound{};
  for (size_t t = 0; t < frames; ++t) {
    const double phase = machine.beat_phase + machine.beat_rate * static_cast<double>(t);
    const double beat = 1.0 + machine.beat_depth * triangle(phase);
    for (size_t band = 0; band < bands; ++band) sound[t][band] = floor_at(machine, band);
    for (size_t h = 0; h < harmonics; ++h) {
      const bool deviates = h == deviation.harmonic;
      const double hertz = machine.pitch * machine.jitter[t] * static_cast<double>(h + 1) *
                           (deviates ? deviation.pitch : 1.0);
      const double power = power_of[h] * (1.0 + 0.6 * load_of[h] * machine.load) * beat *
                           (deviates ? deviation.power : 1.0);
      add_peak(sound[t], band_at(hertz), power);
    }
  }
  return sound;
}

Deviation draw_deviation(Fault fault, RandomNumbers& draw) {
  Deviation deviation;
  if (fault == Fault::MissingHarmonic) {
    deviation.harmonic = draw.below(harmonics);
    deviation.power = draw.within(0.05, 0.6);
  }
  if (fault == Fault::ShiftedHarmonic) {
    deviation.harmonic = draw.below(harmonics);
    const double shift = draw.within(0.01, 0.04);
    deviation.pitch = draw.below(2) == 0 ? 1.0 - shift : 1.0 + shift;
  }
  return deviation;
}

void add_tone(const Machine& machine, RandomNumbers& draw, Sound& sound) {
  const auto below = static_cast<double>(1 + draw.below(harmonics));
  const double hertz = machine.pitch * (below + draw.within(0.35, 0.65));
  const double power = machine.floor * draw.within(0.3, 2.5);
  for (Frame& frame : sound) add_peak(frame, band_at(hertz), power);
}

/// Multiplies the noise power in `width` bands of the frames in `part`.
void raise_noise(const Machine& machine, size_t first, size_t width, double gain,
                 std::span<Frame> part) {
  for (Frame& frame : part) {
    for (size_t band = first; band < first + width; ++band) {
      frame[band] += (gain - 1.0) * floor_at(machine, band);
    }
  }
}

void add_fault(Fault fault, const Machine& machine, RandomNumbers& draw, Sound& sound) {
  if (fault == Fault::ExtraTone) add_tone(machine, draw, sound);
  if (fault == Fault::Click) {
    const size_t frame = draw.below(frames);
    const double gain = draw.within(1.25, 2.0);
    raise_noise(machine, 0, bands, gain, std::span(sound).subspan(frame, 1));
  }
  if (fault == Fault::RaisedNoise) {
    const size_t width = 12 + draw.below(20);
    const size_t first = draw.below(bands - width);
    const double gain = draw.within(1.2, 1.8);
    raise_noise(machine, first, width, gain, sound);
  }
}

void draw_sample(RandomNumbers draw, Fault fault, std::span<float> x) {
  constexpr double log_low = -7.0;
  constexpr double log_span = 9.0;
  const Machine machine = draw_machine(draw);
  Sound sound = hum(machine, draw_deviation(fault, draw));
  add_fault(fault, machine, draw, sound);
  for (size_t i = 0; i < x.size(); ++i) {
    const double level = math::log(sound[i / bands][i % bands]) + draw.three_uniforms(0.2);
    x[i] = static_cast<float>(std::clamp((level - log_low) / log_span, 0.0, 1.0));
  }
}

/// `set` is 0 for training, 1 for normal and 2 for anomalous samples.
Spectra draw_set(uint64_t seed, uint64_t set, int64_t count) {
  Spectra spectra;
  std::vector<float> features(static_cast<size_t>(count * spectrum_features));
  for (int64_t i = 0; i < count; ++i) {
    const auto index = static_cast<uint64_t>(i);
    const Fault fault = set < 2 ? Fault::None : static_cast<Fault>(1 + index % fault_kinds);
    spectra.faults.push_back(fault);
    draw_sample(RandomNumbers(seed, index << 2 | set), fault,
                std::span(features).subspan(static_cast<size_t>(i * spectrum_features),
                                            static_cast<size_t>(spectrum_features)));
  }
  spectra.samples.add("x", Tensor::of<float>({count, spectrum_features}, features));
  return spectra;
}

}  // namespace

SpectraSplit generate_spectra(uint64_t seed, int64_t train, int64_t normal, int64_t anomalous) {
  for (const int64_t count : {train, normal, anomalous}) {
    require<ArgumentError>(count >= 0 && count <= max_count,
                           "generate_spectra: expected a count within 0..{}, got {}", max_count,
                           count);
  }
  return {draw_set(seed, 0, train), draw_set(seed, 1, normal), draw_set(seed, 2, anomalous)};
}

}  // namespace qtape::data
