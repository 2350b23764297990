#include "qtape/integer/exact_linear.h"

#include <algorithm>
#include <atomic>
#include <cmath>

#include "qtape/kernels/onednn/gemm.h"
#include "qtape/kernels/quantize/quantize.h"
#include "qtape/kernels/simd/threads.h"
#include "qtape/kernels/simd/vectorize.h"
#include "qtape/kernels/simd/versions.h"

namespace qtape {

using namespace kernels;
namespace {

// Integers up to here are exact in f32, and so are accumulators that stay below, in any order.
constexpr int64_t exact_f32 = int64_t{1} << 24;
constexpr int64_t part = 256;
constexpr float largest_weight = 128;

AlignedBuffer floats(int64_t n) {
  return AlignedBuffer(n * static_cast<int64_t>(sizeof(float)));
}

/// The codes of n weights of one output, and the sum of their magnitudes; -1 where one has
/// no code: NaN and infinities.
auto row_loop() {
  return simd::best<const float*, float*, int64_t, float, int64_t*>(
      [](const float* weights, float* codes, int64_t n, float inverse, int64_t* magnitude) {
        int32_t sum = 0;
        int32_t bad = 0;
        QTAPE_INDEPENDENT
        for (int64_t i = 0; i < n; ++i) {
          const float code = round_half_even(weights[i] * inverse);
          const bool number = std::fabs(code) <= largest_weight;
          codes[i] = code;
          bad |= number ? 0 : 1;
          sum += static_cast<int32_t>(number ? std::fabs(code) : 0.0f);
        }
        *magnitude = bad == 0 ? sum : -1;
      });
}

/// The same of one weight of each of n outputs, added to their magnitudes; `clean` becomes
/// false where one has no code.
auto column_loop() {
  return simd::best<const float*, float*, int64_t, const float*, int32_t*, bool*>(
      [](const float* weights, float* codes, int64_t n, const float* inverses,
         int32_t* magnitudes, bool* clean) {
        int32_t bad = 0;
        QTAPE_INDEPENDENT
        for (int64_t c = 0; c < n; ++c) {
          const float code = round_half_even(weights[c] * inverses[c]);
          const bool number = std::fabs(code) <= largest_weight;
          codes[c] = code;
          bad |= number ? 0 : 1;
          magnitudes[c] += static_cast<int32_t>(number ? std::fabs(code) : 0.0f);
        }
        if (bad != 0) *clean = false;
      });
}

float* at(const AlignedBuffer& buffer) { return reinterpret_cast<float*>(buffer.data()); }

}  // namespace

ExactProduct::ExactProduct(const Extents& e, const float* x, int64_t limit,
                           const ScaleSource& scales, const float* weights, int threads)
    : extents_(e),
      x_(x),
      limit_(limit),
      scales_(scales),
      weights_(weights),
      threads_(threads),
      codes_(floats(e.n * e.k)),
      first_(floats(e.m * e.n)),
      inverses_(static_cast<size_t>(e.n)),
      magnitudes_(static_cast<size_t>(e.n)),
      row_loop_(row_loop()),
      column_loop_(column_loop()) {
  const Gemm gemm{.m = e.m, .n = e.n, .k = e.k, .transpose_b = e.transpose};
  whole_ = prepare_gemm(gemm, x, at(codes_), at(first_), threads);
  if (limit < part) return;
  high_ = floats(e.m * e.k);
  low_ = floats(e.m * e.k);
  second_ = floats(e.m * e.n);
  upper_ = prepare_gemm(gemm, at(high_), at(codes_), at(first_), threads);
  lower_ = prepare_gemm(gemm, at(low_), at(codes_), at(second_), threads);
}

bool ExactProduct::load_weights() {
  float* codes = at(codes_);
  const auto* scales = scales_.scales<float>();
  for (int64_t c = 0; c < extents_.n; ++c) {
    inverses_[static_cast<size_t>(c)] = 1.0f / scales[scales_.channels == 1 ? 0 : c];
  }
  return extents_.transpose ? load_rows(codes) : load_columns(codes);
}

bool ExactProduct::load_rows(float* codes) {
  const int64_t k = extents_.k;
  std::atomic<int64_t> largest = 0;
  std::atomic<bool> clean = true;
  const int64_t grain = std::max<int64_t>(1, pointwise_grain / (k + 1));
  parallel_for(threads_, extents_.n, 1, grain, [&](int64_t begin, int64_t end) {
    int64_t most = 0;
    for (int64_t c = begin; c < end; ++c) {
      int64_t magnitude = 0;
      row_loop_(weights_ + c * k, codes + c * k, k, inverses_[static_cast<size_t>(c)],
                &magnitude);
      if (magnitude < 0) clean = false;
      most = std::max(most, magnitude);
    }
    int64_t before = largest;
    while (before < most && !largest.compare_exchange_weak(before, most)) continue;
  });
  largest_ = largest;
  return clean;
}

bool ExactProduct::load_columns(float* codes) {
  std::ranges::fill(magnitudes_, 0);
  bool clean = true;
  for (int64_t i = 0; i < extents_.k; ++i) {
    column_loop_(weights_ + i * extents_.n, codes + i * extents_.n, extents_.n,
                 inverses_.data(), magnitudes_.data(), &clean);
  }
  largest_ = magnitudes_.empty() ? 0 : std::ranges::max(magnitudes_);
  return clean;
}

void ExactProduct::split_inputs() {
  const int64_t count = extents_.m * extents_.k;
  float* high = at(high_);
  float* low = at(low_);
  parallel_for(threads_, count, 1024, pointwise_grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const auto code = static_cast<int32_t>(x_[i]);
      high[i] = static_cast<float>(code >> 8);
      low[i] = static_cast<float>(code & (part - 1));
    }
  });
}

void ExactProduct::run(std::vector<int64_t>& accumulators) {
  const auto count = static_cast<int64_t>(accumulators.size());
  const bool fits = largest_ * limit_ < exact_f32;
  const bool parts_fit = largest_ * part < exact_f32;
  if (!fits && (limit_ < part || !parts_fit)) return run_plain(accumulators);
  const float* first = at(first_);
  if (fits) {
    whole_();
    for (int64_t i = 0; i < count; ++i) {
      accumulators[static_cast<size_t>(i)] = static_cast<int32_t>(first[i]);
    }
    return;
  }
  split_inputs();
  upper_();
  lower_();
  const float* second = at(second_);
  for (int64_t i = 0; i < count; ++i) {
    accumulators[static_cast<size_t>(i)] =
        part * static_cast<int32_t>(first[i]) + static_cast<int32_t>(second[i]);
  }
}

/// Products below 2^24, and at most 2^29 of them, are summed exactly in double.
void ExactProduct::run_plain(std::vector<int64_t>& accumulators) const {
  const auto [m, n, k, transpose] = extents_;
  const float* codes = at(codes_);
  const int64_t step = transpose ? 1 : n;
  parallel_for(threads_, m, 1, 1,
               [&, n = n, k = k, transpose = transpose](int64_t begin, int64_t end) {
                 for (int64_t row = begin; row < end; ++row) {
                   for (int64_t c = 0; c < n; ++c) {
                     const float* w = codes + (transpose ? c * k : c);
                     double sum = 0;
                     for (int64_t i = 0; i < k; ++i)
                       sum += double{x_[row * k + i]} * double{w[i * step]};
                     accumulators[static_cast<size_t>(row * n + c)] = static_cast<int64_t>(sum);
                   }
                 }
               });
}

}  // namespace qtape
