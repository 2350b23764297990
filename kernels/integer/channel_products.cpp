#include "qtape/kernels/integer/channel_products.h"

#include <algorithm>
#include <array>

#include "qtape/core/error.h"
#include "qtape/kernels/integer/code_products.h"
#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace qtape::kernels {
namespace {

/// Channels that are summed at once.
constexpr int64_t lanes = 16;

/// Operands of the loop over a block of points.
struct Block {
  const int16_t* x;
  int64_t step;
  const int64_t* taps;
  int64_t pairs;
  const std::byte* weights;
  int32_t* y;
  int64_t n;     // distance between rows of y
  int64_t last;  // channels in the last vector
};

#if QTAPE_HAS_CODE_PRODUCTS

constexpr int64_t max_points = 4;

#if defined(__x86_64__)

#define QTAPE_TARGET __attribute__((target("avx2")))

/// Position of channel i among the weights: interleaving two taps exchanges the middle quarters
/// of 16 channels.
constexpr int64_t position_of(int64_t i) {
  const int64_t quarter = i / 4;
  return (quarter == 1 ? 2 : quarter == 2 ? 1 : quarter) * 4 + i % 4;
}

template <int points>
QTAPE_TARGET void run_block(const Block& b) {
  __m256i low[points];
  __m256i high[points];
  for (int p = 0; p < points; ++p) low[p] = high[p] = _mm256_setzero_si256();
  const auto* weights = reinterpret_cast<const __m256i*>(b.weights);
  for (int64_t pair = 0; pair < b.pairs; ++pair, weights += 2) {
    const __m256i w_low = _mm256_load_si256(weights);
    const __m256i w_high = _mm256_load_si256(weights + 1);
    const int16_t* first = b.x + b.taps[2 * pair];
    const int16_t* second = b.x + b.taps[2 * pair + 1];
    for (int p = 0; p < points; ++p) {
      const __m256i one = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(first));
      const __m256i two = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(second));
      first += b.step;
      second += b.step;
      low[p] =
          _mm256_add_epi32(low[p], _mm256_madd_epi16(_mm256_unpacklo_epi16(one, two), w_low));
      high[p] =
          _mm256_add_epi32(high[p], _mm256_madd_epi16(_mm256_unpackhi_epi16(one, two), w_high));
    }
  }
  alignas(32) std::array<int32_t, lanes> sums;
  for (int p = 0; p < points; ++p) {
    const __m256i front = _mm256_permute2x128_si256(low[p], high[p], 0x20);
    const __m256i back = _mm256_permute2x128_si256(low[p], high[p], 0x31);
    int32_t* y = b.last == lanes ? b.y + p * b.n : sums.data();
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(y), front);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(y + 8), back);
    if (b.last < lanes) std::copy_n(sums.data(), b.last, b.y + p * b.n);
  }
}

#else

/// Position of channel i among the weights.
constexpr int64_t position_of(int64_t i) { return i; }

template <int points>
void run_block(const Block& b) {
  int32x4_t acc[points * 4];
  for (int i = 0; i < points * 4; ++i) acc[i] = vdupq_n_s32(0);
  const auto* weights = reinterpret_cast<const int16_t*>(b.weights);
  for (int64_t pair = 0; pair < b.pairs; ++pair, weights += 2 * lanes) {
    const std::array<int16x8x2_t, 2> w = {vld2q_s16(weights), vld2q_s16(weights + lanes)};
    for (int tap = 0; tap < 2; ++tap) {
      const int16_t* x = b.x + b.taps[2 * pair + tap];
      for (int p = 0; p < points; ++p, x += b.step) {
        for (int half = 0; half < 2; ++half) {
          const int16x8_t codes = vld1q_s16(x + 8 * half);
          const int16x8_t factors = w[static_cast<size_t>(half)].val[tap];
          int32x4_t* sums = acc + p * 4 + half * 2;
          sums[0] = vmlal_s16(sums[0], vget_low_s16(codes), vget_low_s16(factors));
          sums[1] = vmlal_high_s16(sums[1], codes, factors);
        }
      }
    }
  }
  std::array<int32_t, lanes> sums;
  for (int p = 0; p < points; ++p) {
    int32_t* y = b.last == lanes ? b.y + p * b.n : sums.data();
    for (int i = 0; i < 4; ++i) vst1q_s32(y + 4 * i, acc[p * 4 + i]);
    if (b.last < lanes) std::copy_n(sums.data(), b.last, b.y + p * b.n);
  }
}

#endif

void run_points(Block b, int64_t points) {
  const auto advance = [&](int64_t count) {
    points -= count;
    b.x += count * b.step;
    b.y += count * b.n;
  };
  while (points >= max_points) {
    run_block<max_points>(b);
    advance(max_points);
  }
  while (points > 0) {
    run_block<1>(b);
    advance(1);
  }
}

#else

/// Never called, because code_products() is None.
constexpr int64_t position_of(int64_t i) { return i; }
void run_points(const Block&, int64_t) {}

#endif

}  // namespace

ChannelProducts::ChannelProducts(int64_t n, std::span<const int64_t> taps, int64_t length)
    : n_(n), taps_(taps.begin(), taps.end()), given_(std::ssize(taps)) {
  require<ArgumentError>(length == 1, "a tap of a channel is one code, got {}", length);
  // The padding tap has zero weights.
  if (taps_.size() % 2 != 0) taps_.push_back(taps_.back());
  weights_ = AlignedBuffer((n + lanes - 1) / lanes * lanes * std::ssize(taps_) * 2);
}

/// Runs in one thread: the weights are too few to share out.
void ChannelProducts::load(const int8_t* w, bool rows, int) {
  const int64_t taps = std::ssize(taps_);
  auto* to = reinterpret_cast<int16_t*>(weights_.data());
  for (int64_t c = 0; c < n_; ++c) {
    for (int64_t t = 0; t < given_; ++t) {
      const int64_t at = (c / lanes * taps / 2 + t / 2) * lanes + position_of(c % lanes);
      to[2 * at + t % 2] = w[rows ? c * given_ + t : t * n_ + c];
    }
  }
}

void ChannelProducts::run(const Code* x, int64_t step, int64_t points, int32_t* y) const {
  const int64_t taps = std::ssize(taps_);
  for (int64_t c = 0; c < n_; c += lanes) {
    run_points({.x = x + c,
                .step = step,
                .taps = taps_.data(),
                .pairs = taps / 2,
                .weights = weights_.data() + c * taps * 2,
                .y = y + c,
                .n = n_,
                .last = std::min(lanes, n_ - c)},
               points);
  }
}

}  // namespace qtape::kernels
