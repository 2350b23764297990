#include "qtape/ops/layer_norm.h"

#include <array>

#include "qtape/ops/families/channel_norm.h"

namespace qtape {
namespace {

constexpr int64_t lanes = 16;

/// Sum of f(i) for i in [0, n) in double: interleaved partial sums, then halved repeatedly.
template <class F>
double sum_of(int64_t n, const F& f) {
  std::array<double, lanes> sums{};
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    for (int64_t k = 0; k < lanes; ++k) sums[static_cast<size_t>(k)] += f(i + k);
  }
  for (int64_t k = 0; i + k < n; ++k) sums[static_cast<size_t>(k)] += f(i + k);
  for (size_t width = lanes / 2; width > 0; width /= 2) {
    for (size_t k = 0; k < width; ++k) sums[k] += sums[k + width];
  }
  return sums[0];
}

/// Saved values of each row.
struct RowNumbers {
  double* mean;
  double* inverse;

  RowNumbers(std::byte* saved, int64_t rows)
      : mean(reinterpret_cast<double*>(saved)), inverse(mean + rows) {}
};

/// Computes y for rows [begin, end).
template <class T>
auto forward_loop() {
  return simd::best_for<T, const T*, const T*, const T*, T*, const RowNumbers*, double, int64_t,
                        int64_t, int64_t>([](const T* x, const T* gamma, const T* beta, T* y,
                                             const RowNumbers* numbers, double eps, int64_t n,
                                             int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const T* from = x + r * n;
      T* to = y + r * n;
      const auto count = static_cast<double>(n);
      const double mean = sum_of(n, [&](int64_t i) { return double{from[i]}; }) / count;
      const double squares = sum_of(n, [&](int64_t i) {
        const double d = double{from[i]} - mean;
        return d * d;
      });
      const double inverse = 1 / std::sqrt(squares / count + eps);
      numbers->mean[r] = mean;
      numbers->inverse[r] = inverse;
      QTAPE_INDEPENDENT
      for (int64_t i = 0; i < n; ++i) {
        const double h = (double{from[i]} - mean) * inverse;
        to[i] = static_cast<T>(double{gamma[i]} * h + double{beta[i]});
      }
    }
  });
}

/// Adds dy and dy h of rows [begin, end) to `sums`: n sums of dy, then n sums of dy h.
template <class T>
auto sums_loop() {
  return simd::best_for<T, const T*, const T*, const RowNumbers*, double*, int64_t, int64_t,
                        int64_t>([](const T* x, const T* dy, const RowNumbers* numbers,
                                    double* sums, int64_t n, int64_t begin, int64_t end) {
    double* second = sums + n;
    for (int64_t r = begin; r < end; ++r) {
      const T* from = x + r * n;
      const T* g = dy + r * n;
      const double mean = numbers->mean[r];
      const double inverse = numbers->inverse[r];
      QTAPE_INDEPENDENT
      for (int64_t i = 0; i < n; ++i) {
        sums[i] += double{g[i]};
        second[i] += double{g[i]} * ((double{from[i]} - mean) * inverse);
      }
    }
  });
}

/// Computes dx (+)= for rows [begin, end); dx may be dy.
template <class T, bool accumulate>
auto gradient_loop() -> void (*)(const T*, const T*, const T*, T*, const RowNumbers*, int64_t,
                                 int64_t, int64_t) {
  return simd::best_for<T, const T*, const T*, const T*, T*, const RowNumbers*, int64_t,
                        int64_t, int64_t>([](const T* x, const T* gamma, const T* dy, T* dx,
                                             const RowNumbers* numbers, int64_t n,
                                             int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const T* from = x + r * n;
      const T* up = dy + r * n;
      T* to = dx + r * n;
      const auto count = static_cast<double>(n);
      const double mean = numbers->mean[r];
      const double inverse = numbers->inverse[r];
      const auto g = [&](int64_t i) { return double{up[i]} * double{gamma[i]}; };
      const auto h = [&](int64_t i) { return (double{from[i]} - mean) * inverse; };
      const double offset = sum_of(n, g) / count;
      const double slope = sum_of(n, [&](int64_t i) { return g(i) * h(i); }) / count;
      QTAPE_INDEPENDENT
      for (int64_t i = 0; i < n; ++i) {
        const T value = static_cast<T>((g(i) - offset - h(i) * slope) * inverse);
        to[i] = accumulate ? to[i] + value : value;
      }
    }
  });
}

/// Rows of x, divided into pieces that are each summed by one thread. Depends only on the
/// extents.
struct RowPieces {
  int64_t n;
  int64_t rows;
  int64_t pieces;
  int64_t grain;  ///< minimum number of rows per thread

  explicit RowPieces(const Shape& x)
      : n(x[-1]),
        rows(n == 0 ? 0 : x.elements() / n),
        pieces(std::clamp<int64_t>(std::min(rows * n / 32768, rows / 32), 1, 64)),
        grain(std::max<int64_t>(1, pointwise_grain / std::max<int64_t>(n, 1))) {}

  int64_t begin(int64_t piece) const { return rows * piece / pieces; }
};

}  // namespace

static_assert(Compute<LayerNorm>);

TensorType LayerNorm::infer(Inputs inputs) const {
  check_compute(inputs[0]);
  check(inputs[0].shape.rank() >= 1, "x needs rank >= 1, got a scalar");
  check_channels(inputs, 1, "gamma");
  check_channels(inputs, 2, "beta");
  check_eps(eps);
  return inputs[0];
}

Footprint LayerNorm::footprint(Inputs inputs) const {
  const RowPieces rows(inputs[0].shape);
  constexpr int64_t size = sizeof(double);
  return {.saved = 2 * rows.rows * size, .scratch = 2 * rows.n * rows.pieces * size};
}

Kernel LayerNorm::forward(const Binding& b) const {
  return dispatch_compute(b.output.dtype, [&]<class T>() -> Kernel {
    const RowPieces rows(b.inputs[0].shape);
    return
        [rows, numbers = RowNumbers(b.saved, rows.rows), loop = forward_loop<T>(),
         x = b.operand<const T>(0), gamma = b.operand<const T>(1), beta = b.operand<const T>(2),
         y = b.y<T>(), eps = eps, threads = b.threads](const Step&) {
          parallel_for(threads, rows.rows, 1, rows.grain, [&](int64_t begin, int64_t end) {
            loop(x, gamma, beta, y, &numbers, eps, rows.n, begin, end);
          });
        };
  });
}

Kernel LayerNorm::backward(const Binding& b) const {
  return dispatch_compute(b.output.dtype, [&]<class T>() -> Kernel {
    const RowPieces rows(b.inputs[0].shape);
    const auto spread = b.accumulate(0) ? gradient_loop<T, true>() : gradient_loop<T, false>();
    return
        [rows, spread, numbers = RowNumbers(b.saved, rows.rows), add = sums_loop<T>(),
         x = b.operand<const T>(0), gamma = b.operand<const T>(1), dy = b.dy_as<const T>(),
         dx = b.dx<T>(0), dgamma = ChannelGradient<T>(b, 1), dbeta = ChannelGradient<T>(b, 2),
         sums = reinterpret_cast<double*>(b.scratch), threads = b.threads](const Step&) {
          const int64_t n = rows.n;
          parallel_for(threads, rows.pieces, 1, 1, [&](int64_t first, int64_t last) {
            for (int64_t p = first; p < last; ++p) {
              double* own = sums + 2 * n * p;
              std::fill_n(own, 2 * n, 0.0);
              add(x, dy, &numbers, own, n, rows.begin(p), rows.begin(p + 1));
            }
          });
          for (int64_t p = 1; p < rows.pieces; ++p) {
            for (int64_t k = 0; k < 2 * n; ++k) sums[k] += sums[2 * n * p + k];
          }
          if (dx != nullptr) {
            parallel_for(threads, rows.rows, 1, rows.grain, [&](int64_t begin, int64_t end) {
              spread(x, gamma, dy, dx, &numbers, n, begin, end);
            });
          }
          dgamma.put(n, [&](int64_t c) { return sums[n + c]; });
          dbeta.put(n, [&](int64_t c) { return sums[c]; });
        };
  });
}

}  // namespace qtape
