#include "qtape/data/batches.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "qtape/core/error.h"
#include "qtape/core/settings.h"
#include "qtape/data/angles.h"
#include "qtape/data/bell.h"

namespace qtape::data {
namespace {

constexpr uint64_t shuffle_stream = 0x5u;
constexpr uint64_t augmentation_stream = 0xau;
// Random numbers drawn to move an image; those of its noise follow.
constexpr uint64_t draws_of_movement = 3;
// More than a column of a batch takes.
constexpr uint64_t draws_of_a_column = uint64_t{1} << 48;

/// Index of the first random number of the sample at `place` of a batch.
uint64_t first_draw(size_t place, size_t elements) {
  return place * (draws_of_movement + elements);
}

/// An image [rows, columns, channels].
struct Image {
  std::span<const float> values;
  int64_t rows;
  int64_t columns;
  int64_t channels;

  /// Pixel value; 0 outside the image.
  float at(int64_t row, int64_t column, int64_t channel) const {
    const bool inside = row >= 0 && row < rows && column >= 0 && column < columns;
    if (!inside) return 0.0f;
    return values[static_cast<size_t>((row * columns + column) * channels + channel)];
  }
};

/// Rotates and shifts the image, with bilinear interpolation. The random numbers from `draw` on
/// state by how much.
void move_image(const Image& image, const Augmentation& by, const Random& random, uint64_t draw,
                std::span<float> to) {
  const auto within = [&](uint64_t i, double bound) {
    return (2 * random.uniform(draw + i) - 1) * bound;
  };
  const double turns = within(0, by.rotation) / 360;
  const double down = within(1, by.shift);
  const double right = within(2, by.shift);
  const double cosine = cosine_of_turns(turns);
  const double sine = sine_of_turns(turns);
  const double middle_row = static_cast<double>(image.rows - 1) / 2;
  const double middle_col = static_cast<double>(image.columns - 1) / 2;
  size_t i = 0;
  for (int64_t r = 0; r < image.rows; ++r) {
    for (int64_t c = 0; c < image.columns; ++c) {
      const double v = static_cast<double>(r) - middle_row - down;
      const double u = static_cast<double>(c) - middle_col - right;
      const double row = cosine * v - sine * u + middle_row;
      const double col = sine * v + cosine * u + middle_col;
      const auto top = static_cast<int64_t>(std::floor(row));
      const auto left = static_cast<int64_t>(std::floor(col));
      const auto below = static_cast<float>(row - static_cast<double>(top));
      const auto beside = static_cast<float>(col - static_cast<double>(left));
      for (int64_t channel = 0; channel < image.channels; ++channel, ++i) {
        const auto along = [&](int64_t line) {
          return image.at(line, left, channel) * (1 - beside) +
                 image.at(line, left + 1, channel) * beside;
        };
        to[i] = along(top) * (1 - below) + along(top + 1) * below;
      }
    }
  }
}

void add_noise(double deviation, const Random& random, uint64_t draw, std::span<float> x) {
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] += static_cast<float>(deviation * bell(random.bits(draw + i)));
  }
}

}  // namespace

EpochOrder::EpochOrder(int64_t samples, int64_t batch, uint64_t seed)
    : EpochOrder(samples, batch, seed, 0, batch) {}

EpochOrder::EpochOrder(int64_t samples, int64_t batch, uint64_t seed, int64_t first,
                       int64_t count)
    : batch_(batch), first_(first), count_(count), seed_(seed) {
  require<ArgumentError>(samples >= 1, "expected training samples, got {}", samples);
  require<ArgumentError>(batch >= 1 && batch <= samples,
                         "batch must be in 1..{}, the number of training samples, got {}",
                         samples, batch);
  require<ArgumentError>(first >= 0 && count >= 0 && first <= batch - count,
                         "expected a part of the {} samples of a batch, got {} from {} on",
                         batch, count, first);
  order_.resize(static_cast<size_t>(samples));
}

/// Fisher-Yates shuffle.
void EpochOrder::shuffle(int64_t epoch) {
  const Random random(seed_, (static_cast<uint64_t>(epoch) << 8) | shuffle_stream);
  std::iota(order_.begin(), order_.end(), int64_t{0});
  for (size_t i = order_.size(); i > 1; --i) {
    std::swap(order_[i - 1], order_[random.below(i, i)]);
  }
  epoch_ = epoch;
}

std::span<const int64_t> EpochOrder::at(int64_t step) {
  require<ArgumentError>(step >= 0, "expected a training step, got {}", step);
  const int64_t epoch = step / per_epoch();
  if (epoch != epoch_) shuffle(epoch);
  return std::span(order_).subspan(static_cast<size_t>(step % per_epoch() * batch_ + first_),
                                   static_cast<size_t>(count_));
}

void validate(const Augmentation& augmentation) {
  settings::require_non_negative("augmentation", "shift", augmentation.shift);
  settings::require_non_negative("augmentation", "rotation", augmentation.rotation);
  settings::require_non_negative("augmentation", "noise", augmentation.noise);
}

Augmenter::Augmenter(const Augmentation& augmentation, uint64_t seed, int64_t steps,
                     int64_t first)
    : augmentation_(augmentation),
      seed_(seed),
      steps_(std::max<int64_t>(1, steps)),
      first_(static_cast<size_t>(first)) {
  validate(augmentation);
  require<ArgumentError>(first >= 0, "the first position must be at least 0, got {}", first);
}

void Augmenter::read(const Dataset& dataset, size_t column, int64_t sample, int64_t step,
                     size_t place, std::span<float> to) {
  place += first_;
  const Column& from = dataset.columns()[column];
  const Draw draw = draw_at(step);
  if (from.target || !augmentation_.any()) return dataset.read(column, sample, to, draw);
  const Shape& shape = from.sample.shape;
  const Random random(seed_, (static_cast<uint64_t>(step) << 8) | augmentation_stream);
  // All columns move like the first input, and each has noise of its own.
  const size_t first = dataset.input().value();
  const auto elements = static_cast<size_t>(dataset.columns()[first].sample.elements());
  if (augmentation_.moves() && (shape.rank() == 2 || shape.rank() == 3)) {
    image_.resize(to.size());
    dataset.read(column, sample, std::span(image_), draw);
    const int64_t channels = shape.rank() == 3 ? shape[2] : 1;
    move_image({image_, shape[0], shape[1], channels}, augmentation_, random,
               first_draw(place, elements), to);
  } else {
    dataset.read(column, sample, to, draw);
  }
  if (augmentation_.noise > 0) {
    const uint64_t own = (column - first) * draws_of_a_column;
    add_noise(augmentation_.noise, random,
              own + first_draw(place, to.size()) + draws_of_movement, to);
  }
}

}  // namespace qtape::data
