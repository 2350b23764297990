#include "qtape/examples/data/batches.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "qtape/core/error.h"
#include "qtape/core/random.h"
#include "qtape/examples/data/angles.h"
#include "qtape/examples/data/bell.h"

namespace qtape::data {
namespace {

constexpr std::array<float, 256> make_shades() {
  std::array<float, 256> shades{};
  for (size_t i = 0; i < shades.size(); ++i) shades[i] = static_cast<float>(i) / 255.0f;
  return shades;
}

constexpr std::array<float, 256> shades = make_shades();
constexpr uint64_t shuffle_stream = 0x5u;
constexpr uint64_t augmentation_stream = 0xau;
// Numbers that are drawn to move an image; its noise follows.
constexpr uint64_t draws_of_movement = 3;

/// The first number of image `row` of a batch.
uint64_t first_draw(size_t row, size_t features) {
  return row * (draws_of_movement + features);
}

/// The pixel at (row, col), 0 outside the image.
float shade_at(const Dataset& dataset, const uint8_t* pixels, int64_t row, int64_t col) {
  const bool inside = row >= 0 && row < dataset.rows && col >= 0 && col < dataset.cols;
  return inside ? shades[pixels[row * dataset.cols + col]] : 0.0f;
}

/// An image turned and shifted: between pixels by bilinear interpolation.
void move_image(const Dataset& dataset, int64_t image, const Augmentation& by,
                const Random& random, size_t place, std::span<float> x) {
  const uint64_t draw = first_draw(place, x.size());
  const auto within = [&](uint64_t i, double bound) {
    return (2 * random.uniform(draw + i) - 1) * bound;
  };
  const double turns = within(0, by.rotation) / 360;
  const double down = within(1, by.shift);
  const double right = within(2, by.shift);
  const double cosine = cosine_of_turns(turns);
  const double sine = sine_of_turns(turns);
  const double middle_row = static_cast<double>(dataset.rows - 1) / 2;
  const double middle_col = static_cast<double>(dataset.cols - 1) / 2;
  const uint8_t* pixels = dataset.pixels.data() + image * dataset.features();
  size_t i = 0;
  for (int64_t r = 0; r < dataset.rows; ++r) {
    for (int64_t c = 0; c < dataset.cols; ++c, ++i) {
      const double v = static_cast<double>(r) - middle_row - down;
      const double u = static_cast<double>(c) - middle_col - right;
      const double row = cosine * v - sine * u + middle_row;
      const double col = sine * v + cosine * u + middle_col;
      const auto top = static_cast<int64_t>(std::floor(row));
      const auto left = static_cast<int64_t>(std::floor(col));
      const auto below = static_cast<float>(row - static_cast<double>(top));
      const auto beside = static_cast<float>(col - static_cast<double>(left));
      const auto along = [&](int64_t line) {
        return shade_at(dataset, pixels, line, left) * (1 - beside) +
               shade_at(dataset, pixels, line, left + 1) * beside;
      };
      x[i] = along(top) * (1 - below) + along(top + 1) * below;
    }
  }
}

void add_noise(double deviation, const Random& random, size_t place, std::span<float> x) {
  const uint64_t draw = first_draw(place, x.size()) + draws_of_movement;
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] += static_cast<float>(deviation * bell(random.bits(draw + i)));
  }
}

}  // namespace

void copy_pixels(const Dataset& dataset, int64_t image, std::span<float> x) {
  const uint8_t* pixels = dataset.pixels.data() + image * dataset.features();
  for (size_t i = 0; i < x.size(); ++i) x[i] = shades[pixels[i]];
}

int64_t fill_images(const Dataset& dataset, int64_t first, std::span<float> x) {
  const auto features = static_cast<size_t>(dataset.features());
  const int64_t batch = static_cast<int64_t>(x.size() / features);
  const int64_t count = std::min(batch, dataset.size() - first);
  for (int64_t row = 0; row < count; ++row) {
    copy_pixels(dataset, first + row, x.subspan(static_cast<size_t>(row) * features, features));
  }
  std::ranges::fill(x.subspan(static_cast<size_t>(count) * features), 0.0f);
  return count;
}

EpochOrder::EpochOrder(int64_t samples, int64_t batch, uint64_t seed)
    : batch_(batch), seed_(seed), order_(static_cast<size_t>(samples)) {}

/// Fisher and Yates.
void EpochOrder::shuffle(int64_t epoch) {
  const Random random(seed_, (static_cast<uint64_t>(epoch) << 8) | shuffle_stream);
  std::iota(order_.begin(), order_.end(), int64_t{0});
  for (size_t i = order_.size(); i > 1; --i) {
    std::swap(order_[i - 1], order_[random.below(i, i)]);
  }
  epoch_ = epoch;
}

std::span<const int64_t> EpochOrder::at(int64_t step) {
  const int64_t epoch = step / per_epoch();
  if (epoch != epoch_) shuffle(epoch);
  return std::span(order_).subspan(static_cast<size_t>(step % per_epoch() * batch_),
                                   static_cast<size_t>(batch_));
}

Batches::Batches(const Dataset& dataset, int64_t batch, uint64_t seed,
                 const Augmentation& augmentation)
    : dataset_(dataset),
      order_(dataset.size(), batch, seed),
      seed_(seed),
      augmentation_(augmentation) {
  require<ArgumentError>(batch >= 1 && batch <= dataset.size(),
                         "batch must be in 1..{}, the number of training images, got {}",
                         dataset.size(), batch);
}

void Batches::fill(int64_t step, std::span<float> x, std::span<int32_t> labels) {
  const auto features = static_cast<size_t>(dataset_.features());
  const Random random(seed_, (static_cast<uint64_t>(step) << 8) | augmentation_stream);
  size_t row = 0;
  for (const int64_t image : order_.at(step)) {
    const std::span<float> to = x.subspan(row * features, features);
    if (augmentation_.moves()) {
      move_image(dataset_, image, augmentation_, random, row, to);
    } else {
      copy_pixels(dataset_, image, to);
    }
    if (augmentation_.noise > 0) add_noise(augmentation_.noise, random, row, to);
    labels[row++] = dataset_.labels[static_cast<size_t>(image)];
  }
}

}  // namespace qtape::data
