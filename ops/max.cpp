#include "qtape/ops/max.h"

#include <algorithm>
#include <array>

#include "qtape/kernels/simd/threads.h"
#include "qtape/kernels/simd/vectorize.h"
#include "qtape/kernels/simd/versions.h"
#include "qtape/ops/families/beats.h"
#include "qtape/ops/families/reduction.h"

namespace qtape {

using namespace kernels;
namespace {

/// Columns whose maxima are computed at once.
constexpr int64_t max_columns = 64;

/// Maxima of the columns so far, and their offsets in x.
template <class T>
struct Best {
  std::array<T, max_columns> value;
  std::array<int64_t, max_columns> offset;
};

template <class T>
using MaxLoop = void (*)(const T*, int64_t, Best<T>*, const WalkAxis*, int64_t);

/// Computes a maximum for each of n <= max_columns columns starting at `offset`.
template <class T>
MaxLoop<T> max_loop() {
  return simd::best_for<T, const T*, int64_t, Best<T>*, const WalkAxis*, int64_t>(
      [](const T* x, int64_t offset, Best<T>* best, const WalkAxis* row, int64_t n) {
        T* values = best->value.data();
        int64_t* offsets = best->offset.data();
        for (int64_t r = 0; r < row->extent; ++r) {
          const int64_t first = offset + r * row->x;
          QTAPE_INDEPENDENT
          for (int64_t c = 0; c < n; ++c) {
            const T value = x[first + c];
            const bool better = beats(value, values[c]);
            values[c] = better ? value : values[c];
            offsets[c] = better ? first + c : offsets[c];
          }
        }
      });
}

/// Moves the maximum of n columns to column 0; of equals, the first in x.
template <class T>
void fold(Best<T>& best, int64_t n) {
  T& value = best.value[0];
  int64_t& offset = best.offset[0];
  for (int64_t c = 1; c < n; ++c) {
    const T other = best.value[static_cast<size_t>(c)];
    const int64_t at = best.offset[static_cast<size_t>(c)];
    if (!beats(other, value) && (beats(value, other) || at > offset)) continue;
    value = other;
    offset = at;
  }
}

template <class T>
struct MaxTask {
  SumWalk walk;
  const T* x;
  T* y;
  int64_t* saved;
  MaxLoop<T> loop;

  /// Writes outputs [begin, end).
  void operator()(int64_t begin, int64_t end) const {
    Best<T> best;
    const int64_t columns = walk.columns_kept ? walk.columns.extent : 1;
    for (int64_t o = begin; o < end;) {
      const int64_t column = o % columns;
      const int64_t n = std::min({end - o, columns - column, max_columns});
      const int64_t start = offsets_at(walk.kept, o / columns).along(walk.columns, column).x;
      const int64_t width = walk.columns_kept ? n : std::min(walk.columns.extent, max_columns);
      for (int64_t i = 0; i < width; ++i) {
        best.value[static_cast<size_t>(i)] = x[start + i];
        best.offset[static_cast<size_t>(i)] = start + i;
      }
      for (int64_t i = 0; i < walk.repeats; ++i) {
        search(start + offsets_at(walk.reduced, i).x, width, best);
      }
      if (!walk.columns_kept) fold(best, width);
      std::copy_n(best.value.begin(), n, y + o);
      std::copy_n(best.offset.begin(), n, saved + o);
      o += n;
    }
  }

  /// Searches one matrix at `offset`; a row longer than `width` is itself divided into rows.
  void search(int64_t offset, int64_t width, Best<T>& best) const {
    const int64_t columns = walk.columns.extent;
    if (walk.columns_kept || columns == width) return loop(x, offset, &best, &walk.rows, width);
    const WalkAxis whole{columns / width, width, 0, 0};
    const WalkAxis rest{1, 0, 0, 0};
    for (int64_t r = 0; r < walk.rows.extent; ++r) {
      const int64_t row = offset + r * walk.rows.x;
      loop(x, row, &best, &whole, width);
      loop(x, row + whole.extent * width, &best, &rest, columns % width);
    }
  }
};

}  // namespace

static_assert(Compute<Max>);

TensorType Max::infer(Inputs inputs) const {
  check_compute(inputs[0]);
  const Shape& x = inputs[0].shape;
  const Shape y = reduced_shape(x, axes, keep_dims);
  check(x.elements() > 0 || y.elements() == 0,
        "the maximum of no elements is undefined, x is {}", to_string(x));
  return {inputs[0].dtype, y};
}

Footprint Max::footprint(Inputs inputs) const {
  const int64_t outputs = reduced_shape(inputs[0].shape, axes).elements();
  return {.saved = static_cast<int64_t>(sizeof(int64_t)) * outputs};
}

Kernel Max::forward(const Binding& b) const {
  if (b.output.elements() == 0) return {};
  return dispatch_compute(b.output.dtype, [&]<class T>() -> Kernel {
    const Shape& x = b.inputs[0].shape;
    const SumWalk walk(x, reduced_shape(x, axes), x);
    const int64_t block = walk.columns_kept ? max_columns : 1;
    const int64_t grain = std::max<int64_t>(1, pointwise_grain / walk.terms);
    const MaxTask<T> run{walk, b.operand<const T>(0), b.y<T>(),
                         reinterpret_cast<int64_t*>(b.saved), max_loop<T>()};
    return [run, block, grain, threads = b.threads](const Step&) {
      parallel_for(threads, run.walk.outputs, block, grain, run);
    };
  });
}

Kernel Max::backward(const Binding& b) const {
  if (!b.wanted(0)) return {};
  return dispatch_compute(b.output.dtype, [&]<class T>() -> Kernel {
    return [saved = reinterpret_cast<const int64_t*>(b.saved), dy = b.dy_as<const T>(),
            dx = b.dx<T>(0), n = b.inputs[0].elements(), outputs = b.output.elements(),
            fill = !b.accumulate(0)](const Step&) {
      if (fill) std::fill_n(dx, n, T(0));
      for (int64_t o = 0; o < outputs; ++o) dx[saved[o]] += dy[o];
    };
  });
}

}  // namespace qtape
