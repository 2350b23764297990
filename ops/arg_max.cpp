#include "qtape/ops/arg_max.h"

#include <algorithm>
#include <array>
#include <limits>

#include "qtape/kernels/simd/threads.h"
#include "qtape/kernels/simd/vectorize.h"
#include "qtape/ops/families/beats.h"
#include "qtape/ops/families/reduction.h"

namespace qtape {

using namespace kernels;

namespace {

/// Columns that are searched at once.
constexpr int64_t column_block = 64;

/// Searches x, whose axis of `extent` has `inner` elements from one index to the next.
template <class T>
struct Search {
  int64_t inner;
  int64_t extent;
  const T* x;
  int32_t* y;

  /// Writes outputs [begin, end).
  void operator()(int64_t begin, int64_t end) const {
    for (int64_t o = begin; o < end;) {
      const int64_t column = o % inner;
      const int64_t n = std::min({end - o, inner - column, column_block});
      const T* from = x + o / inner * extent * inner + column;
      if (n == 1)
        y[o] = index_in_column(from);
      else
        search_columns(from, y + o, n);
      o += n;
    }
  }

  int32_t index_in_column(const T* from) const {
    int64_t index = 0;
    T best = from[0];
    for (int64_t i = 1; i < extent; ++i) {
      if (!beats(from[i * inner], best)) continue;
      best = from[i * inner];
      index = i;
    }
    return static_cast<int32_t>(index);
  }

  void search_columns(const T* from, int32_t* index, int64_t n) const {
    std::array<T, column_block> best;
    std::copy_n(from, n, best.begin());
    std::fill_n(index, n, 0);
    T* values = best.data();
    for (int64_t i = 1; i < extent; ++i) {
      const T* row = from + i * inner;
      QTAPE_INDEPENDENT
      for (int64_t c = 0; c < n; ++c) {
        const bool better = beats(row[c], values[c]);
        values[c] = better ? row[c] : values[c];
        index[c] = better ? static_cast<int32_t>(i) : index[c];
      }
    }
  }
};

}  // namespace

static_assert(Compute<ArgMax>);

TensorType ArgMax::infer(Inputs inputs) const {
  check_compute(inputs[0]);
  const Shape& x = inputs[0].shape;
  const Shape y = reduced_shape(x, std::vector<int>{axis}, keep_dims);
  const int64_t extent = x[axis < 0 ? axis + x.rank() : axis];
  check(extent >= 1 && extent <= std::numeric_limits<int32_t>::max(),
        "axis {} must have 1 to 2^31 - 1 elements, x is {}", axis, to_string(x));
  return {DType::S32, y};
}

Kernel ArgMax::forward(const Binding& b) const {
  const Shape& x = b.inputs[0].shape;
  const int at = axis < 0 ? axis + x.rank() : axis;
  int64_t inner = 1;
  for (int k = at + 1; k < x.rank(); ++k) inner *= x[k];
  return dispatch_compute(b.inputs[0].dtype, [&]<class T>() -> Kernel {
    const Search<T> search{inner, x[at], b.operand<const T>(0), b.y<int32_t>()};
    const int64_t block = inner > 1 ? column_block : 1;
    const int64_t grain = std::max<int64_t>(1, pointwise_grain / x[at]);
    return [search, block, grain, n = b.output.elements(), threads = b.threads](const Step&) {
      parallel_for(threads, n, block, grain, search);
    };
  });
}

Kernel ArgMax::backward(const Binding&) const { return {}; }

}  // namespace qtape
