// Order and augmentation of training samples.
#include "qtape/data/batches.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "qtape/data/generated/digits.h"
#include "qtape/tests/support/errors.h"

using namespace qtape;

namespace {

/// Returns the batch of one step.
std::vector<float> draw(const data::Dataset& set, int64_t batch,
                        const data::Augmentation& augmentation, uint64_t seed, int64_t step) {
  data::EpochOrder order(set.size(), batch, seed);
  data::Augmenter augmenter(augmentation, seed, order.per_epoch());
  const auto width = static_cast<size_t>(set.columns()[0].sample.elements());
  std::vector<float> x(static_cast<size_t>(batch) * width);
  size_t place = 0;
  for (const int64_t sample : order.at(step)) {
    augmenter.read(set, 0, sample, step, place, std::span(x).subspan(place * width, width));
    ++place;
  }
  return x;
}

}  // namespace

TEST_CASE("batches: each epoch has every sample once, in an order of its own") {
  data::EpochOrder order(30, 10, 3);
  CHECK(order.per_epoch() == 3);
  const auto epoch = [&](int64_t first) {
    std::vector<int64_t> all;
    for (int64_t step = first; step < first + 3; ++step) {
      const auto samples = order.at(step);
      all.insert(all.end(), samples.begin(), samples.end());
    }
    return all;
  };
  auto one = epoch(0);
  auto two = epoch(3);
  CHECK(one != two);
  CHECK(epoch(0) == one);
  std::ranges::sort(one);
  std::ranges::sort(two);
  CHECK(one == two);
  std::vector<int64_t> each(30);
  std::iota(each.begin(), each.end(), 0);
  CHECK(one == each);
  CHECK(test::error_text<ArgumentError>([] { data::EpochOrder(30, 31, 1); }) ==
        "batch must be in 1..30, the number of training samples, got 31");
}

TEST_CASE("batches: augmented images are functions of seed, step and place alone") {
  const data::Dataset digits = data::generate_digits(2, 64, 10).train;
  const data::Augmentation all{.shift = 2, .rotation = 15, .noise = 0.1};
  CHECK(draw(digits, 16, all, 1, 3) == draw(digits, 16, all, 1, 3));
  CHECK(draw(digits, 16, all, 1, 3) != draw(digits, 16, all, 2, 3));
  CHECK(draw(digits, 16, all, 1, 3) != draw(digits, 16, all, 1, 7));
  CHECK(draw(digits, 16, {.rotation = 1e-300}, 1, 3) == draw(digits, 16, {}, 1, 3));
  // Noise has the given standard deviation and mean 0.
  const std::vector<float> plain = draw(digits, 16, {}, 1, 3);
  const std::vector<float> noisy = draw(digits, 16, {.noise = 0.25}, 1, 3);
  double sum = 0, squares = 0;
  for (size_t i = 0; i < plain.size(); ++i) {
    const double difference = double{noisy[i]} - double{plain[i]};
    sum += difference;
    squares += difference * difference;
  }
  const auto count = static_cast<double>(plain.size());
  CHECK(std::abs(sum / count) < 0.01);
  CHECK(std::abs(std::sqrt(squares / count) - 0.25) < 0.01);
}

TEST_CASE("batches: images move as far as they are told, and whole turns move nothing away") {
  std::vector<uint8_t> pixels(81, 0);
  pixels[4 * 9 + 4] = 255;
  data::Dataset set;
  set.add("x", Tensor::of<uint8_t>({1, 9, 9}, pixels));
  double farthest = 0;
  for (int64_t step = 0; step < 200; ++step) {
    const std::vector<float> x = draw(set, 1, {.shift = 2.5}, 5, step);
    double total = 0, row = 0;
    for (size_t i = 0; i < 81; ++i) {
      total += double{x[i]};
      row += double{x[i]} * (static_cast<double>(i / 9) - 4);
    }
    CHECK(std::abs(total - 1) < 1e-5);
    farthest = std::max(farthest, std::abs(row));
    CHECK(std::abs(draw(set, 1, {.rotation = 180}, 5, step)[40] - 1) < 1e-5);  // the centre
  }
  CHECK(farthest > 2.3);
  CHECK(farthest <= 2.5 + 1e-5);
}

TEST_CASE("batches: channels of an image move alike, and targets not at all") {
  std::vector<float> values(2 * 9 * 9 * 2);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i / 2 % 7);
  data::Dataset set;
  set.add("x", Tensor::of<float>({2, 9, 9, 2}, values));
  set.add_target("mask", Tensor::of<float>({2, 9, 9, 2}, values));
  const std::vector<float> x = draw(set, 2, {.shift = 3, .rotation = 40}, 1, 0);
  for (size_t i = 0; i < x.size(); i += 2) CHECK(x[i] == x[i + 1]);
  // Columns of another size move alike as well, and have noise of their own.
  std::vector<float> one(2 * 9 * 9);
  for (size_t i = 0; i < one.size(); ++i) one[i] = values[2 * i];
  set.add("mono", Tensor::of<float>({2, 9, 9}, one));
  const auto read = [&](const data::Augmentation& by, size_t column, size_t size) {
    std::vector<float> to(size);
    data::Augmenter(by, 1, 1).read(set, column, 1, 0, 1, to);
    return to;
  };
  const std::vector<float> two = read({.shift = 3, .rotation = 40}, 0, 9 * 9 * 2);
  const std::vector<float> mono = read({.shift = 3, .rotation = 40}, 2, 9 * 9);
  for (size_t i = 0; i < mono.size(); ++i) CHECK(mono[i] == two[2 * i]);
  CHECK(read({.noise = 1}, 2, 9 * 9)[0] - one[81] !=
        read({.noise = 1}, 0, 9 * 9 * 2)[0] - one[81]);
  data::Augmenter augmenter({.shift = 3, .noise = 1}, 1, 1);
  std::vector<float> mask(9 * 9 * 2);
  augmenter.read(set, 1, 1, 0, 0, mask);
  CHECK(std::ranges::equal(mask, std::span(values).last(mask.size())));
}
