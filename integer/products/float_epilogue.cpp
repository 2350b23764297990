#include "qtape/integer/products/float_epilogue.h"

#include <memory>
#include <vector>

#include "qtape/kernels/simd/vectorize.h"
#include "qtape/kernels/simd/versions.h"

namespace qtape {

using namespace kernels;
namespace {

/// Values read by the loops, one per output; repeated, so that a small number of outputs fills
/// vectors.
struct FloatTable {
  int64_t period = 0;
  std::vector<int32_t> offsets;
  std::vector<int64_t> wide_offsets;  // [n]
  std::vector<float> scales;
  std::vector<float> bias;
  float low = 0;
  float high = 0;

  explicit FloatTable(const FloatEpilogue& e) : low(e.low), high(e.high) {
    const int64_t n = std::max<int64_t>(1, e.n);
    period = n * std::max<int64_t>(1, 256 / n);
    offsets.resize(static_cast<size_t>(period));
    wide_offsets.resize(static_cast<size_t>(e.n));
    scales.resize(offsets.size());
    bias.resize(offsets.size());
  }
  void load(const FloatEpilogue& e, std::span<const int64_t> added) {
    std::copy(added.begin(), added.end(), wide_offsets.begin());
    int64_t c = 0;
    for (size_t i = 0; i < offsets.size(); ++i) {
      offsets[i] = static_cast<int32_t>(wide_offsets[static_cast<size_t>(c)]);
      scales[i] = e.scales[c];
      // x + -0 is x, whatever x is.
      bias[i] = e.bias == nullptr ? -0.0f : e.bias[c];
      if (++c == e.n) c = 0;
    }
  }
};

inline float limited(float v, float low, float high) {
  const float lifted = v < low ? low : v;
  return lifted > high ? high : lifted;
}

using FloatLoop = void (*)(const int32_t*, float*, int64_t, const FloatTable*);

FloatLoop float_loop() {
  return simd::best<const int32_t*, float*, int64_t, const FloatTable*>(
      [](const int32_t* acc, float* y, int64_t total, const FloatTable* t) {
        const int32_t* offsets = t->offsets.data();
        const float* scales = t->scales.data();
        const float* bias = t->bias.data();
        const float low = t->low;
        const float high = t->high;
        for (int64_t i = 0; i < total; i += t->period) {
          const int64_t count = t->period < total - i ? t->period : total - i;
          QTAPE_INDEPENDENT
          for (int64_t c = 0; c < count; ++c) {
            const float sum = static_cast<float>(acc[i + c] + offsets[c]);
            y[i + c] = limited(sum * scales[c] + bias[c], low, high);
          }
        }
      });
}

}  // namespace

Epilogue float_epilogue(const FloatEpilogue& e) {
  auto table = std::make_shared<FloatTable>(e);
  return {
      .load =
          [e, table](std::span<const int64_t> offsets) {
            table->load(e, offsets);
            return Fault{};
          },
      .s32 =
          [e, table, loop = float_loop()](int64_t row, int64_t rows, const int32_t* products) {
            loop(products, e.y + row * e.n, rows * e.n, table.get());
          },
      .s64 =
          [e, table](int64_t row, int64_t rows, const int64_t* products) {
            float* y = e.y + row * e.n;
            for (int64_t i = 0; i < rows * e.n; ++i) {
              const auto c = static_cast<size_t>(i % e.n);
              const auto sum = static_cast<float>(products[i] + table->wide_offsets[c]);
              y[i] = limited(sum * table->scales[c] + table->bias[c], e.low, e.high);
            }
          }};
}

}  // namespace qtape
