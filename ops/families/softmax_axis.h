// Kernels of Softmax and LogSoftmax along any axis.
#pragma once

#include "qtape/kernels/simd/threads.h"
#include "qtape/kernels/simd/versions.h"
#include "qtape/ops/core/op.h"
#include "qtape/ops/families/softmax_kernels.h"

namespace qtape::softmax {

using namespace kernels;

/// Lines of `channels` elements at distance `inner`. With inner = 1 the kernels process
/// consecutive lines one at a time, otherwise up to `block` adjacent lines at once.
struct Lines {
  int64_t channels = 0;
  int64_t inner = 0;
  int64_t count = 0;

  Lines(const Shape& shape, int axis) {
    const AxisView view = axis_view(shape, resolve_axis(axis, shape));
    channels = view.channels;
    inner = view.inner;
    count = view.outer * view.inner;
  }
  /// Calls `body(offset, lines)` for pieces that cover lines [begin, end).
  template <class Body>
  void run(int64_t begin, int64_t end, const Body& body) const {
    if (inner == 1) return body(begin * channels, end - begin);
    for (int64_t line = begin; line < end;) {
      const int64_t column = line % inner;
      const int64_t width = std::min({end - line, inner - column, block});
      body(line / inner * channels * inner + column, width);
      line += width;
    }
  }
  /// Minimum number of lines per thread: an exponential costs about four pointwise elements.
  int64_t grain() const { return std::max<int64_t>(1, pointwise_grain / (4 * channels)); }
};

template <class T>
using ForwardLoop = void (*)(const T*, T*, const Lines*, int64_t);
template <class T>
using BackwardLoop = void (*)(const T*, const T*, T*, const Lines*, int64_t);

template <class T, bool log>
ForwardLoop<T> rows_forward() {
  return simd::best_for<T, const T*, T*, const Lines*, int64_t>(
      [](const T* from, T* to, const Lines* lines, int64_t count) {
        const int64_t n = lines->channels;
        for (int64_t r = 0; r < count; ++r) {
          const T* x = from + r * n;
          T* y = to + r * n;
          const double peak = largest(x, n);
          if constexpr (!log) {
            const double sum = exponentials(x, peak, y, n);
            scale(y, 1.0 / sum, n);
          } else {
            const auto term = [&](int64_t i) { return math::exp(double{x[i]} - peak); };
            const double log_sum = math::log(sum_of(n, term));
            QTAPE_INDEPENDENT
            for (int64_t i = 0; i < n; ++i)
              y[i] = static_cast<T>((double{x[i]} - peak) - log_sum);
          }
        }
      });
}

template <class T, bool log>
ForwardLoop<T> columns_forward() {
  return simd::best_for<T, const T*, T*, const Lines*, int64_t>(
      [](const T* x, T* y, const Lines* lines, int64_t width) {
        const int64_t end = lines->channels * lines->inner;
        const int64_t step = lines->inner;
        alignas(64) double peak[block];
        alignas(64) double sum[block] = {};
        for (double& each : peak) each = -std::numeric_limits<double>::infinity();
        for (int64_t i = 0; i < end; i += step) {
          QTAPE_INDEPENDENT
          for (int64_t c = 0; c < width; ++c) peak[c] = x[i + c] > peak[c] ? x[i + c] : peak[c];
        }
        for (int64_t i = 0; i < end; i += step) {
          QTAPE_INDEPENDENT
          for (int64_t c = 0; c < width; ++c) {
            const double e = math::exp(double{x[i + c]} - peak[c]);
            sum[c] += e;
            if constexpr (!log) y[i + c] = static_cast<T>(e);
          }
        }
        QTAPE_INDEPENDENT
        for (int64_t c = 0; c < width; ++c) sum[c] = log ? math::log(sum[c]) : 1.0 / sum[c];
        for (int64_t i = 0; i < end; i += step) {
          QTAPE_INDEPENDENT
          for (int64_t c = 0; c < width; ++c) {
            y[i + c] = static_cast<T>(log ? (double{x[i + c]} - peak[c]) - sum[c]
                                          : double{y[i + c]} * sum[c]);
          }
        }
      });
}

/// Term of the sum in the gradient: dy, times y for Softmax.
template <bool log>
inline double term(double y, double dy) {
  return log ? dy : dy * y;
}

/// Gradient of an element, given that sum.
template <bool log>
inline double slope(double y, double dy, double sum) {
  if constexpr (log) return dy - math::exp(y) * sum;
  return y * (dy - sum);
}

template <class T, bool log, bool accumulate>
BackwardLoop<T> rows_backward() {
  return simd::best_for<T, const T*, const T*, T*, const Lines*, int64_t>(
      [](const T* values, const T* upstream, T* gradients, const Lines* lines, int64_t count) {
        const int64_t n = lines->channels;
        for (int64_t r = 0; r < count; ++r) {
          const T* y = values + r * n;
          const T* dy = upstream + r * n;
          T* dx = gradients + r * n;
          const double sum = sum_of(n, [&](int64_t i) { return term<log>(y[i], dy[i]); });
          QTAPE_INDEPENDENT
          for (int64_t i = 0; i < n; ++i) {
            const T gradient = static_cast<T>(slope<log>(y[i], dy[i], sum));
            dx[i] = accumulate ? dx[i] + gradient : gradient;
          }
        }
      });
}

template <class T, bool log, bool accumulate>
BackwardLoop<T> columns_backward() {
  return simd::best_for<T, const T*, const T*, T*, const Lines*, int64_t>(
      [](const T* y, const T* dy, T* dx, const Lines* lines, int64_t width) {
        const int64_t end = lines->channels * lines->inner;
        const int64_t step = lines->inner;
        alignas(64) double sum[block] = {};
        for (int64_t i = 0; i < end; i += step) {
          QTAPE_INDEPENDENT
          for (int64_t c = 0; c < width; ++c) sum[c] += term<log>(y[i + c], dy[i + c]);
        }
        for (int64_t i = 0; i < end; i += step) {
          QTAPE_INDEPENDENT
          for (int64_t c = 0; c < width; ++c) {
            const T gradient = static_cast<T>(slope<log>(y[i + c], dy[i + c], sum[c]));
            dx[i + c] = accumulate ? dx[i + c] + gradient : gradient;
          }
        }
      });
}

/// y = softmax(x) along `axis`, or its logarithm.
template <bool log>
Kernel bind_forward(const Binding& b, int axis) {
  if (b.output.elements() == 0) return {};
  return dispatch_compute(b.output.dtype, [&]<class T>() -> Kernel {
    const Lines lines(b.output.shape, axis);
    const auto loop = lines.inner == 1 ? rows_forward<T, log>() : columns_forward<T, log>();
    return [lines, loop, x = b.operand<const T>(0), y = b.y<T>(),
            threads = b.threads](const Step&) {
      parallel_for(threads, lines.count, 1, lines.grain(), [&](int64_t begin, int64_t end) {
        lines.run(begin, end, [&](int64_t at, int64_t n) { loop(x + at, y + at, &lines, n); });
      });
    };
  });
}

/// dx (+)= the gradient, computed from y and dy; dx may be dy.
template <bool log>
Kernel bind_backward(const Binding& b, int axis) {
  if (!b.wanted(0) || b.output.elements() == 0) return {};
  return dispatch_compute(b.output.dtype, [&]<class T>() -> Kernel {
    const Lines lines(b.output.shape, axis);
    const auto rows =
        b.accumulate(0) ? rows_backward<T, log, true>() : rows_backward<T, log, false>();
    const auto columns =
        b.accumulate(0) ? columns_backward<T, log, true>() : columns_backward<T, log, false>();
    return [lines, loop = lines.inner == 1 ? rows : columns, y = b.y<const T>(),
            dy = b.dy_as<const T>(), dx = b.dx<T>(0), threads = b.threads](const Step&) {
      parallel_for(threads, lines.count, 1, lines.grain(), [&](int64_t begin, int64_t end) {
        lines.run(begin, end,
                  [&](int64_t at, int64_t n) { loop(y + at, dy + at, dx + at, &lines, n); });
      });
    };
  });
}

}  // namespace qtape::softmax
