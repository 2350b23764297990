// Loops of broadcasts and sums. Included only by the .cpp files of ops that use them.
//
// A function here is a small struct with `template <class T> T operator()(T x, T a, T b)
// const`. An operand that it ignores may be any readable tensor with as many elements as x.
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "qtape/kernels/simd/threads.h"
#include "qtape/kernels/simd/vectorize.h"
#include "qtape/kernels/simd/versions.h"
#include "qtape/ops/core/op.h"
#include "qtape/ops/families/reduction.h"

namespace qtape {

using namespace kernels;

/// Operands of a MapWalk or a SumWalk.
template <class T>
struct Tensors {
  const T* x = nullptr;
  const T* a = nullptr;
  const T* b = nullptr;
};

namespace detail {

template <class F, class T>
using MapLoop = void (*)(const F*, const T*, const T*, const T*, T*, const WalkAxis*, int64_t,
                         int64_t);

/// out[r, c] (+)= f(x[r, c], a[r, c], b[r, c]); out is dense like x and may be x or a.
template <class F, class T, bool accumulate, bool a_steps, bool b_steps>
MapLoop<F, T> map_loop() {
  return simd::best_for<T, const F*, const T*, const T*, const T*, T*, const WalkAxis*, int64_t,
                        int64_t>([](const F* function, const T* x, const T* a, const T* b,
                                    T* out, const WalkAxis* row, int64_t rows,
                                    int64_t columns) {
    const F f = *function;
    for (int64_t r = 0; r < rows; ++r) {
      const T* xr = x + r * row->x;
      const T* ar = a + r * row->a;
      const T* br = b + r * row->b;
      T* to = out + r * columns;
      const T a0 = *ar;
      const T b0 = *br;
      QTAPE_INDEPENDENT
      for (int64_t c = 0; c < columns; ++c) {
        const T value = f(xr[c], a_steps ? ar[c] : a0, b_steps ? br[c] : b0);
        to[c] = accumulate ? to[c] + value : value;
      }
    }
  });
}

template <class F, class T, bool accumulate>
MapLoop<F, T> choose_map_loop(const WalkAxis& columns) {
  if (columns.extent > 1 && columns.a == 0) return map_loop<F, T, accumulate, false, true>();
  if (columns.extent > 1 && columns.b == 0) return map_loop<F, T, accumulate, true, false>();
  return map_loop<F, T, accumulate, true, true>();
}

/// Number of partial sums of a row: constant, which fixes the order of additions.
inline constexpr int64_t sum_lanes = 16;
/// Columns that are summed at once.
inline constexpr int64_t sum_columns = 256;

template <class F, class T>
using SumLoop = void (*)(const F*, const T*, const T*, const T*, double*, const WalkAxis*,
                         int64_t);

/// sums[c] += f(x[r, c], a[c], b[r, c]) for columns from `first` on, rows in order.
template <bool b_steps, class F, class T>
inline void sum_rows(const F& f, const T* x, const T* a, const T* b, double* sums,
                     const WalkAxis& row, int64_t first, int64_t columns) {
  for (int64_t r = 0; r < row.extent; ++r) {
    const T* xr = x + r * row.x;
    const T* br = b + r * row.b;
    const double b0 = *br;
    QTAPE_INDEPENDENT
    for (int64_t c = first; c < columns; ++c) {
      sums[c] += f(double{xr[c]}, double{a[c]}, b_steps ? double{br[c]} : b0);
    }
  }
}

template <class F, class T, bool b_steps>
SumLoop<F, T> sum_rows_loop() {
  return simd::best_for<T, const F*, const T*, const T*, const T*, double*, const WalkAxis*,
                        int64_t>([](const F* function, const T* x, const T* a, const T* b,
                                    double* sums, const WalkAxis* row, int64_t columns) {
    sum_rows<b_steps>(F{*function}, x, a, b, sums, *row, 0, columns);
  });
}

/// Variant of sum_rows for few columns: `sum_lanes` columns at a time, with sums in registers.
template <class F, class T, bool b_steps>
SumLoop<F, T> sum_narrow_rows_loop() {
  return simd::best_for<T, const F*, const T*, const T*, const T*, double*, const WalkAxis*,
                        int64_t>([](const F* function, const T* x, const T* a, const T* b,
                                    double* sums, const WalkAxis* row, int64_t columns) {
    const F f = *function;
    int64_t first = 0;
    for (; first + sum_lanes <= columns; first += sum_lanes) {
      std::array<double, sum_lanes> lanes;
      for (size_t k = 0; k < sum_lanes; ++k) lanes[k] = sums[first + static_cast<int64_t>(k)];
      for (int64_t r = 0; r < row->extent; ++r) {
        const T* xr = x + r * row->x + first;
        const T* br = b + r * row->b + (b_steps ? first : 0);
        for (int64_t k = 0; k < sum_lanes; ++k) {
          lanes[static_cast<size_t>(k)] +=
              f(double{xr[k]}, double{a[first + k]}, double{br[b_steps ? k : 0]});
        }
      }
      for (size_t k = 0; k < sum_lanes; ++k) sums[first + static_cast<int64_t>(k)] = lanes[k];
    }
    sum_rows<b_steps>(f, x, a, b, sums, *row, first, columns);
  });
}

/// sums[c % sum_lanes] += f(x[r, c], a[0], b[r, c]), rows and columns in order.
template <class F, class T>
SumLoop<F, T> sum_lanes_loop() {
  return simd::best_for<T, const F*, const T*, const T*, const T*, double*, const WalkAxis*,
                        int64_t>([](const F* function, const T* x, const T* a, const T* b,
                                    double* sums, const WalkAxis* row, int64_t columns) {
    const F f = *function;
    const double a0 = *a;
    std::array<double, sum_lanes> lanes;
    for (size_t k = 0; k < sum_lanes; ++k) lanes[k] = sums[k];
    for (int64_t r = 0; r < row->extent; ++r) {
      const T* xr = x + r * row->x;
      const T* br = b + r * row->b;
      int64_t c = 0;
      for (; c + sum_lanes <= columns; c += sum_lanes) {
        for (int64_t k = 0; k < sum_lanes; ++k) {
          lanes[static_cast<size_t>(k)] += f(double{xr[c + k]}, a0, double{br[c + k]});
        }
      }
      for (int64_t k = 0; c + k < columns; ++k) {
        lanes[static_cast<size_t>(k)] += f(double{xr[c + k]}, a0, double{br[c + k]});
      }
    }
    for (size_t k = 0; k < sum_lanes; ++k) sums[k] = lanes[k];
  });
}

template <class F, class T>
SumLoop<F, T> choose_sum_loop(const SumWalk& walk) {
  const bool b_steps = walk.columns.b != 0;
  if (!walk.columns_kept) return sum_lanes_loop<F, T>();
  if (walk.columns.extent <= 4 * sum_lanes) {
    return b_steps ? sum_narrow_rows_loop<F, T, true>() : sum_narrow_rows_loop<F, T, false>();
  }
  return b_steps ? sum_rows_loop<F, T, true>() : sum_rows_loop<F, T, false>();
}

/// Adds up all lanes, halving their number each time.
inline void fold_lanes(double* sums) {
  for (int64_t width = sum_lanes / 2; width > 0; width /= 2) {
    for (int64_t k = 0; k < width; ++k) sums[k] += sums[k + width];
  }
}

/// Run-time parameters of a sum.
template <class F, class T>
struct SumTask {
  F function;
  SumWalk walk;
  Tensors<T> from;
  T* out;
  bool accumulate;
  double divisor;
  SumLoop<F, T> loop;

  /// Writes outputs [begin, end).
  void operator()(int64_t begin, int64_t end) const {
    std::array<double, sum_columns> sums;
    const int64_t columns = walk.columns_kept ? walk.columns.extent : 1;
    for (int64_t o = begin; o < end;) {
      const int64_t column = o % columns;
      const int64_t n = std::min({end - o, columns - column, sum_columns});
      const Offsets at = offsets_at(walk.kept, o / columns).along(walk.columns, column);
      std::fill_n(sums.begin(), walk.columns_kept ? n : sum_lanes, 0.0);
      for (int64_t i = 0; i < walk.repeats; ++i) {
        const Offsets part = offsets_at(walk.reduced, i, at);
        loop(&function, from.x + part.x, from.a + part.a, from.b + part.b, sums.data(),
             &walk.rows, walk.columns_kept ? n : walk.columns.extent);
      }
      if (!walk.columns_kept) fold_lanes(sums.data());
      for (int64_t i = 0; i < n; ++i) {
        const T sum = static_cast<T>(sums[static_cast<size_t>(i)] / divisor);
        out[o + i] = accumulate ? out[o + i] + sum : sum;
      }
      o += n;
    }
  }
};

/// Sum of a matrix over its rows, which are divided into pieces by the extents alone. The sums
/// of the pieces are added in order.
template <class F, class T>
class PiecewiseSum {
 public:
  explicit PiecewiseSum(const SumTask<F, T>& task)
      : task_(task),
        rows_(task.walk.rows.extent),
        columns_(task.walk.columns.extent),
        pieces_(pieces_of(task.walk)),
        sums_(std::make_shared<std::vector<double>>(static_cast<size_t>(pieces_ * columns_))) {}

  /// Number of pieces; 1 if division does not pay, if there are enough columns to share out, or
  /// if the walk is not a matrix.
  static int64_t pieces_of(const SumWalk& walk) {
    if (!walk.columns_kept || walk.repeats > 1 || !walk.kept.empty()) return 1;
    if (walk.columns.extent > most_columns) return 1;
    const int64_t work = walk.rows.extent * walk.columns.extent / (2 * pointwise_grain);
    return std::clamp<int64_t>(work, 1, std::min(most_pieces, walk.rows.extent));
  }

  void run(int threads) const {
    parallel_for(threads, pieces_, 1, 1, [&](int64_t begin, int64_t end) {
      for (int64_t piece = begin; piece < end; ++piece) sum(piece);
    });
    const double* sums = sums_->data();
    for (int64_t c = 0; c < columns_; ++c) {
      double sum = sums[c];
      for (int64_t piece = 1; piece < pieces_; ++piece) sum += sums[piece * columns_ + c];
      const T result = static_cast<T>(sum / task_.divisor);
      task_.out[c] = task_.accumulate ? task_.out[c] + result : result;
    }
  }

 private:
  static constexpr int64_t most_pieces = 16;
  static constexpr int64_t most_columns = 1024;

  void sum(int64_t piece) const {
    const int64_t first = rows_ * piece / pieces_;
    WalkAxis rows = task_.walk.rows;
    rows.extent = rows_ * (piece + 1) / pieces_ - first;
    double* sums = sums_->data() + piece * columns_;
    std::fill_n(sums, columns_, 0.0);
    const Offsets begin = Offsets{}.along(task_.walk.rows, first);
    for (int64_t c = 0; c < columns_; c += sum_columns) {
      const Offsets at = begin.along(task_.walk.columns, c);
      task_.loop(&task_.function, task_.from.x + at.x, task_.from.a + at.a, task_.from.b + at.b,
                 sums + c, &rows, std::min(columns_ - c, sum_columns));
    }
  }

  SumTask<F, T> task_;
  int64_t rows_, columns_, pieces_;
  std::shared_ptr<std::vector<double>> sums_;  // indexed by piece and column
};

}  // namespace detail

/// out (+)= f(x, a, b) for every element of x.
template <class T, class F>
Kernel bind_map(const F& f, MapWalk walk, Tensors<T> from, T* out, bool accumulate,
                int threads) {
  if (walk.elements == 0) return {};
  const auto loop = accumulate ? detail::choose_map_loop<F, T, true>(walk.columns)
                               : detail::choose_map_loop<F, T, false>(walk.columns);
  return [f, walk = std::move(walk), from, out, loop, threads](const Step&) {
    parallel_for(threads, walk.elements, 1024, pointwise_grain,
                 [&](int64_t begin, int64_t end) {
                   walk.run(begin, end, [&](const Offsets& at, int64_t rows, int64_t columns) {
                     loop(&f, from.x + at.x, from.a + at.a, from.b + at.b, out + at.x,
                          &walk.rows, rows, columns);
                   });
                 });
  };
}

/// out (+)= (sum of f(x, a, b) over the elements of x over which an element of a is repeated) /
/// divisor, for every element of a. Sums are in double: in index order if the last axis is kept
/// (a sum over all rows of a matrix in up to 16 pieces), otherwise in 16 interleaved partial
/// sums.
template <class T, class F>
Kernel bind_sum(const F& f, SumWalk walk, Tensors<T> from, T* out, bool accumulate, int threads,
                double divisor = 1.0) {
  const int64_t outputs = walk.outputs;
  if (outputs == 0 || (walk.terms == 0 && accumulate)) return {};
  if (walk.terms == 0) return [out, outputs](const Step&) { std::fill_n(out, outputs, T(0)); };
  const auto loop = detail::choose_sum_loop<F, T>(walk);
  const bool in_pieces = detail::PiecewiseSum<F, T>::pieces_of(walk) > 1;
  const int64_t block = walk.columns_kept ? 64 : 1;
  const int64_t grain = std::max<int64_t>(1, 2 * pointwise_grain / walk.terms);
  const detail::SumTask<F, T> run{f, std::move(walk), from, out, accumulate, divisor, loop};
  if (in_pieces) {
    return [sum = detail::PiecewiseSum<F, T>(run), threads](const Step&) { sum.run(threads); };
  }
  return [run, outputs, block, grain, threads](const Step&) {
    parallel_for(threads, outputs, block, grain, run);
  };
}

}  // namespace qtape
