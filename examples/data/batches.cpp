#include "qtape/examples/data/batches.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "qtape/core/error.h"
#include "qtape/core/random.h"

namespace qtape::data {
namespace {

constexpr std::array<float, 256> make_shades() {
  std::array<float, 256> shades{};
  for (size_t i = 0; i < shades.size(); ++i) shades[i] = static_cast<float>(i) / 255.0f;
  return shades;
}

constexpr std::array<float, 256> shades = make_shades();
constexpr uint64_t shuffle_stream = 0x5u;

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

Batches::Batches(const Dataset& dataset, int64_t batch, uint64_t seed)
    : dataset_(dataset), order_(dataset.size(), batch, seed) {
  require<ArgumentError>(batch >= 1 && batch <= dataset.size(),
                         "batch must be in 1..{}, the number of training images, got {}",
                         dataset.size(), batch);
}

void Batches::fill(int64_t step, std::span<float> x, std::span<int32_t> labels) {
  const auto features = static_cast<size_t>(dataset_.features());
  size_t row = 0;
  for (const int64_t image : order_.at(step)) {
    copy_pixels(dataset_, image, x.subspan(row * features, features));
    labels[row++] = dataset_.labels[static_cast<size_t>(image)];
  }
}

}  // namespace qtape::data
