#include "qtape/ops/families/sums.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "qtape/kernels/simd/threads.h"
#include "qtape/kernels/simd/vectorize.h"
#include "qtape/kernels/simd/versions.h"
#include "qtape/ops/families/vectors.h"

namespace qtape {

using namespace kernels;
namespace {

/// Number of partial sums of a row: constant, which fixes the order of additions.
constexpr int64_t sum_lanes = 16;
/// Columns that are summed at once.
constexpr int64_t sum_columns = 256;
/// Terms that are computed at once: they stay in the first-level cache.
constexpr int64_t buffered_terms = 1024;
static_assert(buffered_terms % sum_lanes == 0 && buffered_terms >= sum_columns);

/// Adds `rows` rows of x, which are `stride` apart, to sums.
template <class T>
using RowsLoop = void (*)(const T* x, double* sums, int64_t stride, int64_t rows,
                          int64_t columns);

/// sums[c] += x[r, c], rows in order.
template <class T>
RowsLoop<T> wide_rows_loop() {
  return simd::best<const T*, double*, int64_t, int64_t, int64_t>(
      [](const T* x, double* sums, int64_t stride, int64_t rows, int64_t columns) {
        for (int64_t r = 0; r < rows; ++r) {
          const T* xr = x + r * stride;
          QTAPE_INDEPENDENT
          for (int64_t c = 0; c < columns; ++c) sums[c] += double{xr[c]};
        }
      });
}

/// Adds `columns` <= width columns of x to sums, which stay in registers. Rows are read up to
/// `width` columns while these lie before `end`.
template <int64_t width, class T>
inline void add_columns(const T* x, const T* end, double* sums, int64_t stride, int64_t rows,
                        int64_t columns) {
  constexpr int64_t lanes = 8;
  constexpr auto registers = static_cast<size_t>(width / lanes);
  std::array<double, static_cast<size_t>(width)> kept{};
  std::copy_n(sums, columns, kept.begin());
  Vector<double, lanes> parts[registers];
  std::memcpy(&parts, kept.data(), sizeof parts);
  int64_t r = 0;
  for (; r < rows && end - (x + r * stride) >= width; ++r) {
    for (size_t k = 0; k < registers; ++k) {
      Vector<T, lanes> values;
      load(x + r * stride + static_cast<int64_t>(k) * lanes, values);
      parts[k] += __builtin_convertvector(values, Vector<double, lanes>);
    }
  }
  std::memcpy(kept.data(), &parts, sizeof parts);
  for (; r < rows; ++r) {
    const T* xr = x + r * stride;
    for (int64_t k = 0; k < columns; ++k) kept[static_cast<size_t>(k)] += double{xr[k]};
  }
  std::copy_n(kept.begin(), columns, sums);
}

/// Variant of wide_rows_loop for few columns: `sum_lanes` or fewer at a time.
template <class T>
RowsLoop<T> narrow_rows_loop() {
  return simd::best<const T*, double*, int64_t, int64_t, int64_t>(
      [](const T* x, double* sums, int64_t stride, int64_t rows, int64_t columns) {
        const T* end = x + (rows - 1) * stride + columns;
        for (int64_t first = 0; first < columns; first += sum_lanes) {
          const int64_t rest = columns - first;
          if (rest > sum_lanes / 2) {
            add_columns<sum_lanes>(x + first, end, sums + first, stride, rows,
                                   std::min(rest, sum_lanes));
          } else {
            add_columns<sum_lanes / 2>(x + first, end, sums + first, stride, rows, rest);
          }
        }
      });
}

/// sums[c % sum_lanes] += x[r, c], rows and columns in order.
template <class T>
RowsLoop<T> lanes_loop() {
  return simd::best<const T*, double*, int64_t, int64_t, int64_t>(
      [](const T* x, double* sums, int64_t stride, int64_t rows, int64_t columns) {
        std::array<double, sum_lanes> lanes;
        for (size_t k = 0; k < sum_lanes; ++k) lanes[k] = sums[k];
        for (int64_t r = 0; r < rows; ++r) {
          const T* xr = x + r * stride;
          int64_t c = 0;
          for (; c + sum_lanes <= columns; c += sum_lanes) {
            for (int64_t k = 0; k < sum_lanes; ++k) {
              lanes[static_cast<size_t>(k)] += double{xr[c + k]};
            }
          }
          for (int64_t k = 0; c + k < columns; ++k) {
            lanes[static_cast<size_t>(k)] += double{xr[c + k]};
          }
        }
        for (size_t k = 0; k < sum_lanes; ++k) sums[k] = lanes[k];
      });
}

template <class T>
RowsLoop<T> choose_rows_loop(const SumWalk& walk) {
  if (!walk.columns_kept) return lanes_loop<T>();
  return walk.columns.extent <= 4 * sum_lanes ? narrow_rows_loop<T>() : wide_rows_loop<T>();
}

/// Adds up all lanes, halving their number each time.
void fold_lanes(double* sums) {
  for (int64_t width = sum_lanes / 2; width > 0; width /= 2) {
    for (int64_t k = 0; k < width; ++k) sums[k] += sums[k + width];
  }
}

/// Parameters of a sum.
template <class T>
struct SumTask {
  SumWalk walk;
  Tensors<T> from;
  TermsLoop<T> terms;
  T* out;
  bool accumulate;
  double divisor;
  RowsLoop<T> add_elements;
  RowsLoop<double> add_terms;

  void write(int64_t output, double sum) const {
    const T result = static_cast<T>(sum / divisor);
    out[output] = accumulate ? out[output] + result : result;
  }

  /// Adds the terms of `rows` rows of `columns` columns to sums, at most `sum_columns` columns
  /// if they are kept.
  void add(const Offsets& at, double* sums, int64_t rows, int64_t columns) const {
    if (terms == nullptr) {
      add_elements(from.x + at.x, sums, walk.rows.x, rows, columns);
      return;
    }
    std::array<double, buffered_terms> buffer;
    const int64_t width = std::min(columns, buffered_terms);
    const int64_t max_rows = width < columns ? 1 : buffered_terms / std::max<int64_t>(1, width);
    for (int64_t r = 0; r < rows; r += max_rows) {
      for (int64_t c = 0; c < columns; c += width) {
        const Offsets part = at.along(walk.rows, r).along(walk.columns, c);
        const int64_t height = std::min(max_rows, rows - r);
        const int64_t n = std::min(width, columns - c);
        terms(from.x + part.x, from.a + part.a, from.b + part.b, buffer.data(), &walk.rows,
              height, n);
        add_terms(buffer.data(), sums, n, height, n);
      }
    }
  }

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
        add(offsets_at(walk.reduced, i, at), sums.data(), walk.rows.extent,
            walk.columns_kept ? n : walk.columns.extent);
      }
      if (!walk.columns_kept) fold_lanes(sums.data());
      for (int64_t i = 0; i < n; ++i) write(o + i, sums[static_cast<size_t>(i)]);
      o += n;
    }
  }
};

/// Sum of a matrix over its rows, which are divided into pieces by the extents alone. The sums
/// of the pieces are added in order.
template <class T>
class PiecewiseSum {
 public:
  explicit PiecewiseSum(const SumTask<T>& task)
      : task_(task),
        rows_(task.walk.rows.extent),
        columns_(task.walk.columns.extent),
        pieces_(pieces_of(task.walk)),
        sums_(std::make_shared<std::vector<double>>(static_cast<size_t>(pieces_ * columns_))) {}

  /// Number of pieces; 1 if division does not pay, if there are enough columns to share out, or
  /// if the walk is not a matrix.
  static int64_t pieces_of(const SumWalk& walk) {
    if (!walk.columns_kept || walk.repeats > 1 || !walk.kept.empty()) return 1;
    if (walk.columns.extent > max_columns) return 1;
    const int64_t work = walk.rows.extent * walk.columns.extent / (2 * pointwise_grain);
    return std::clamp<int64_t>(work, 1, std::min(max_pieces, walk.rows.extent));
  }

  void run(int threads) const {
    parallel_for(threads, pieces_, 1, 1, [&](int64_t begin, int64_t end) {
      for (int64_t piece = begin; piece < end; ++piece) sum(piece);
    });
    const double* sums = sums_->data();
    for (int64_t c = 0; c < columns_; ++c) {
      double sum = sums[c];
      for (int64_t piece = 1; piece < pieces_; ++piece) sum += sums[piece * columns_ + c];
      task_.write(c, sum);
    }
  }

 private:
  static constexpr int64_t max_pieces = 16;
  static constexpr int64_t max_columns = 1024;

  void sum(int64_t piece) const {
    const int64_t first = rows_ * piece / pieces_;
    const int64_t rows = rows_ * (piece + 1) / pieces_ - first;
    double* sums = sums_->data() + piece * columns_;
    std::fill_n(sums, columns_, 0.0);
    const Offsets begin = Offsets{}.along(task_.walk.rows, first);
    for (int64_t c = 0; c < columns_; c += sum_columns) {
      task_.add(begin.along(task_.walk.columns, c), sums + c, rows,
                std::min(columns_ - c, sum_columns));
    }
  }

  SumTask<T> task_;
  int64_t rows_, columns_, pieces_;
  std::shared_ptr<std::vector<double>> sums_;  // indexed by piece and column
};

template <class T>
Kernel bind(SumWalk walk, Tensors<T> from, TermsLoop<T> terms, T* out, bool accumulate,
            int threads, double divisor) {
  const int64_t outputs = walk.outputs;
  if (outputs == 0 || (walk.terms == 0 && accumulate)) return {};
  if (walk.terms == 0) return [out, outputs](const Step&) { std::fill_n(out, outputs, T(0)); };
  const auto add_elements = choose_rows_loop<T>(walk);
  const auto add_terms = choose_rows_loop<double>(walk);
  const bool in_pieces = PiecewiseSum<T>::pieces_of(walk) > 1;
  const int64_t share = walk.columns_kept ? 64 : 1;
  const int64_t grain = std::max<int64_t>(1, 2 * pointwise_grain / walk.terms);
  const SumTask<T> run{std::move(walk), from,    terms,        out,
                       accumulate,      divisor, add_elements, add_terms};
  if (in_pieces) {
    return [sum = PiecewiseSum<T>(run), threads](const Step&) { sum.run(threads); };
  }
  return [run, outputs, share, grain, threads](const Step&) {
    parallel_for(threads, outputs, share, grain, run);
  };
}

}  // namespace

template <class T>
Kernel bind_sum_of(SumWalk walk, Tensors<T> from, TermsLoop<T> terms, T* out, bool accumulate,
                   int threads, double divisor) {
  return bind(std::move(walk), from, terms, out, accumulate, threads, divisor);
}

template Kernel bind_sum_of(SumWalk, Tensors<float>, TermsLoop<float>, float*, bool, int,
                            double);
template Kernel bind_sum_of(SumWalk, Tensors<double>, TermsLoop<double>, double*, bool, int,
                            double);

}  // namespace qtape
