#include "qtape/integer/core/weight_sums.h"

#include <algorithm>

#include "qtape/kernels/simd/threads.h"
#include "qtape/kernels/simd/versions.h"

namespace qtape {

using namespace kernels;

WeightSummation::WeightSummation()
    : by_row_(simd::best<const int8_t*, int64_t, WeightSums*>(
          [](const int8_t* w, int64_t k, WeightSums* sums) {
            int32_t sum = 0;
            int32_t magnitude = 0;
            for (int64_t i = 0; i < k; ++i) {
              const int32_t v = w[i];
              sum += v;
              magnitude += v < 0 ? -v : v;
            }
            *sums = {sum, magnitude};
          })),
      // Adds one weight of each of n outputs to the sums.
      by_column_(simd::best<const int8_t*, int64_t, WeightSums*>(
          [](const int8_t* w, int64_t n, WeightSums* sums) {
            for (int64_t c = 0; c < n; ++c) {
              const int32_t v = w[c];
              sums[c].sum += v;
              sums[c].magnitude += v < 0 ? -v : v;
            }
          })) {}

void WeightSummation::operator()(const int8_t* w, int64_t k, bool rows, int threads,
                                 std::span<WeightSums> sums) const {
  const int64_t n = std::ssize(sums);
  if (rows) {
    const int64_t grain = std::max<int64_t>(1, 4 * pointwise_grain / (k + 1));
    parallel_for(threads, n, 1, grain, [&](int64_t begin, int64_t end) {
      for (int64_t c = begin; c < end; ++c)
        by_row_(w + c * k, k, &sums[static_cast<size_t>(c)]);
    });
    return;
  }
  std::ranges::fill(sums, WeightSums{});
  for (int64_t i = 0; i < k; ++i) by_column_(w + i * n, n, sums.data());
}

void take_offsets(std::span<const int32_t> bias, std::span<const WeightSums> sums, int64_t zero,
                  std::span<int64_t> offsets) {
  for (size_t c = 0; c < offsets.size(); ++c) {
    offsets[c] = (bias.empty() ? 0 : bias[c]) - zero * sums[c].sum;
  }
}

}  // namespace qtape
