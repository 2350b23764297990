// Norms of rows: the elements of the last axis are scaled by a statistic of their row. Included
// only by the .cpp files of these ops.
#pragma once

#include <array>

#include "qtape/ops/families/channel_norm.h"

namespace qtape {

/// Sum of f(i) for i in [0, n) in double: interleaved partial sums, then halved repeatedly.
template <class F>
double row_sum(int64_t n, const F& f) {
  constexpr int64_t lanes = 16;
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

/// A norm of rows. The divisor is sqrt(mean + eps) of the squares, or with `unit`
/// max(sqrt(sum), eps).
struct RowNorm {
  bool centered = false;  ///< the mean is subtracted first
  bool gamma = false;     ///< operand 1 multiplies
  bool beta = false;      ///< operand 2 is added
  bool unit = false;

  /// Reciprocal of the divisor for the sum of n squares. NaN stays NaN.
  double inverse(double squares, double n, double eps) const {
    if (!unit) return 1 / std::sqrt(squares / n + eps);
    const double norm = std::sqrt(squares);
    return 1 / (norm < eps ? eps : norm);
  }
};

/// Saved values of each row.
struct RowNumbers {
  double* inverse;
  double* mean;  ///< null unless the norm is centered

  RowNumbers(std::byte* saved, int64_t rows, bool centered)
      : inverse(reinterpret_cast<double*>(saved)), mean(centered ? inverse + rows : nullptr) {}
};

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

/// Computes y for rows [begin, end).
template <class T, RowNorm norm>
auto row_norm_loop() {
  return simd::best_for<T, const T*, const T*, const T*, T*, const RowNumbers*, double, int64_t,
                        int64_t, int64_t>(
      [](const T* x, [[maybe_unused]] const T* gamma, [[maybe_unused]] const T* beta, T* y,
         const RowNumbers* numbers, double eps, int64_t n, int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) {
          const T* from = x + r * n;
          T* to = y + r * n;
          const auto count = static_cast<double>(n);
          double mean = 0;
          if constexpr (norm.centered) {
            mean = row_sum(n, [&](int64_t i) { return double{from[i]}; }) / count;
            numbers->mean[r] = mean;
          }
          const double squares = row_sum(n, [&](int64_t i) {
            const double d = double{from[i]} - mean;
            return d * d;
          });
          const double inverse = norm.inverse(squares, count, eps);
          numbers->inverse[r] = inverse;
          QTAPE_INDEPENDENT
          for (int64_t i = 0; i < n; ++i) {
            double h = (double{from[i]} - mean) * inverse;
            if constexpr (norm.gamma) h = double{gamma[i]} * h;
            if constexpr (norm.beta) h = h + double{beta[i]};
            to[i] = static_cast<T>(h);
          }
        }
      });
}

/// Adds dy h of rows [begin, end) to n sums, and with a beta dy to the n sums before them.
template <class T, RowNorm norm>
auto row_sums_loop() {
  return simd::best_for<T, const T*, const T*, const RowNumbers*, double*, int64_t, int64_t,
                        int64_t>([](const T* x, const T* dy, const RowNumbers* numbers,
                                    double* sums, int64_t n, int64_t begin, int64_t end) {
    double* second = norm.beta ? sums + n : sums;
    for (int64_t r = begin; r < end; ++r) {
      const T* from = x + r * n;
      const T* g = dy + r * n;
      const double mean = norm.centered ? numbers->mean[r] : 0;
      const double inverse = numbers->inverse[r];
      QTAPE_INDEPENDENT
      for (int64_t i = 0; i < n; ++i) {
        if constexpr (norm.beta) sums[i] += double{g[i]};
        second[i] += double{g[i]} * ((double{from[i]} - mean) * inverse);
      }
    }
  });
}

/// Computes dx (+)= for rows [begin, end); dx may be dy. With `unit`, rows shorter than eps are
/// only divided by it.
template <class T, RowNorm norm, bool accumulate>
auto row_gradient_loop() -> void (*)(const T*, const T*, const T*, T*, const RowNumbers*,
                                     double, int64_t, int64_t, int64_t) {
  return simd::best_for<T, const T*, const T*, const T*, T*, const RowNumbers*, double, int64_t,
                        int64_t, int64_t>([](const T* x, [[maybe_unused]] const T* gamma,
                                             const T* dy, T* dx, const RowNumbers* numbers,
                                             [[maybe_unused]] double eps, int64_t n,
                                             int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const T* from = x + r * n;
      const T* up = dy + r * n;
      T* to = dx + r * n;
      const double count = norm.unit ? 1 : static_cast<double>(n);
      const double mean = norm.centered ? numbers->mean[r] : 0;
      const double inverse = numbers->inverse[r];
      const auto g = [&](int64_t i) {
        if constexpr (norm.gamma) return double{up[i]} * double{gamma[i]};
        return double{up[i]};
      };
      const auto h = [&](int64_t i) { return (double{from[i]} - mean) * inverse; };
      const double offset = norm.centered ? row_sum(n, g) / count : 0;
      double slope = row_sum(n, [&](int64_t i) { return g(i) * h(i); }) / count;
      if constexpr (norm.unit) slope = inverse == 1 / eps ? 0 : slope;
      QTAPE_INDEPENDENT
      for (int64_t i = 0; i < n; ++i) {
        const T value = static_cast<T>((g(i) - offset - h(i) * slope) * inverse);
        to[i] = accumulate ? to[i] + value : value;
      }
    }
  });
}

template <RowNorm norm>
Footprint row_norm_footprint(const Shape& x) {
  const RowPieces rows(x);
  constexpr int64_t size = sizeof(double);
  constexpr int64_t sums = int64_t{norm.gamma} + int64_t{norm.beta};
  return {.saved = (norm.centered ? 2 : 1) * rows.rows * size,
          .scratch = sums * rows.n * rows.pieces * size};
}

template <RowNorm norm>
Kernel row_norm_forward(const Binding& b, double eps) {
  return dispatch_compute(b.output.dtype, [&]<class T>() -> Kernel {
    const RowPieces rows(b.inputs[0].shape);
    return [rows, numbers = RowNumbers(b.saved, rows.rows, norm.centered),
            loop = row_norm_loop<T, norm>(), x = b.operand<const T>(0),
            gamma = norm.gamma ? b.operand<const T>(1) : nullptr,
            beta = norm.beta ? b.operand<const T>(2) : nullptr, y = b.y<T>(), eps,
            threads = b.threads](const Step&) {
      parallel_for(threads, rows.rows, 1, rows.grain, [&](int64_t begin, int64_t end) {
        loop(x, gamma, beta, y, &numbers, eps, rows.n, begin, end);
      });
    };
  });
}

/// Gradients of gamma and beta, by pieces of rows that are then added in order.
template <class T, RowNorm norm>
class RowParameters {
 public:
  explicit RowParameters(const Binding& b)
      : rows_(b.inputs[0].shape),
        numbers_(b.saved, rows_.rows, norm.centered),
        x_(b.operand<const T>(0)),
        dy_(b.dy_as<const T>()),
        gradients_(gradients_of(b)),
        sums_(reinterpret_cast<double*>(b.scratch)),
        threads_(b.threads),
        add_(row_sums_loop<T, norm>()) {}

  /// Reads dy, which the gradient of x may overwrite: runs before it.
  void add() const {
    const int64_t width = std::ssize(gradients_) * rows_.n;
    parallel_for(threads_, rows_.pieces, 1, 1, [&](int64_t first, int64_t last) {
      for (int64_t p = first; p < last; ++p) {
        double* own = sums_ + width * p;
        std::fill_n(own, width, 0.0);
        add_(x_, dy_, &numbers_, own, rows_.n, rows_.begin(p), rows_.begin(p + 1));
      }
    });
    for (int64_t p = 1; p < rows_.pieces; ++p) {
      for (int64_t k = 0; k < width; ++k) sums_[k] += sums_[width * p + k];
    }
  }
  void put() const {
    const int64_t last = std::ssize(gradients_) - 1;
    for (int64_t k = 0; k <= last; ++k) {
      const double* own = sums_ + (last - k) * rows_.n;
      gradients_[static_cast<size_t>(k)].put(rows_.n, [&](int64_t c) { return own[c]; });
    }
  }

 private:
  static std::vector<ChannelGradient<T>> gradients_of(const Binding& b) {
    std::vector<ChannelGradient<T>> found;
    if constexpr (norm.gamma) found.emplace_back(b, 1);
    if constexpr (norm.beta) found.emplace_back(b, 2);
    return found;
  }

  RowPieces rows_;
  RowNumbers numbers_;
  const T* x_;
  const T* dy_;
  std::vector<ChannelGradient<T>> gradients_;  // of gamma, then beta
  double* sums_;
  int threads_;
  decltype(row_sums_loop<T, norm>()) add_;
};

template <RowNorm norm>
Kernel row_norm_backward(const Binding& b, double eps) {
  return dispatch_compute(b.output.dtype, [&]<class T>() -> Kernel {
    const RowPieces rows(b.inputs[0].shape);
    const auto spread = b.accumulate(0) ? row_gradient_loop<T, norm, true>()
                                        : row_gradient_loop<T, norm, false>();
    return [rows, spread, numbers = RowNumbers(b.saved, rows.rows, norm.centered),
            parameters = RowParameters<T, norm>(b), x = b.operand<const T>(0),
            gamma = norm.gamma ? b.operand<const T>(1) : nullptr, dy = b.dy_as<const T>(),
            dx = b.dx<T>(0), eps, threads = b.threads](const Step&) {
      if constexpr (norm.gamma) parameters.add();
      if (dx != nullptr) {
        parallel_for(threads, rows.rows, 1, rows.grain, [&](int64_t begin, int64_t end) {
          spread(x, gamma, dy, dx, &numbers, eps, rows.n, begin, end);
        });
      }
      if constexpr (norm.gamma) parameters.put();
    };
  });
}

}  // namespace qtape
