// Loops of broadcasts and sums. Included only by the .cpp files of ops that use them.
//
// A function here is a small struct with `template <class T> T operator()(T x, T a, T b)
// const`. An operand that it ignores may be any readable tensor with as many elements as x.
#pragma once

#include <type_traits>
#include <utility>

#include "qtape/kernels/simd/threads.h"
#include "qtape/kernels/simd/vectorize.h"
#include "qtape/kernels/simd/versions.h"
#include "qtape/ops/core/op.h"
#include "qtape/ops/families/copy.h"
#include "qtape/ops/families/reduction.h"
#include "qtape/ops/families/sums.h"

namespace qtape {

using namespace kernels;

namespace detail {

template <class F, class T>
using MapLoop = void (*)(const F*, const T*, const T*, const T*, T*, const WalkAxis*, int64_t,
                         int64_t);

/// out[r, c] = f(x[r, c], a[r, c], b[r, c]); out is dense like x and may be x or a.
template <class F, class T, bool a_steps, bool b_steps>
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
        to[c] = f(xr[c], a_steps ? ar[c] : a0, b_steps ? br[c] : b0);
      }
    }
  });
}

template <class F, class T>
MapLoop<F, T> choose_map_loop(const WalkAxis& columns) {
  if (columns.extent > 1 && columns.a == 0) return map_loop<F, T, false, true>();
  if (columns.extent > 1 && columns.b == 0) return map_loop<F, T, true, false>();
  return map_loop<F, T, true, true>();
}

/// terms[r, c] = f(x[r, c], a[r, c], b[r, c]) in double; terms are dense.
template <class F, class T, bool a_steps, bool b_steps>
TermsLoop<T> terms_loop() {
  static_assert(std::is_empty_v<F>);
  return simd::best_for<T, const T*, const T*, const T*, double*, const WalkAxis*, int64_t,
                        int64_t>([](const T* x, const T* a, const T* b, double* terms,
                                    const WalkAxis* row, int64_t rows, int64_t columns) {
    const F f;
    for (int64_t r = 0; r < rows; ++r) {
      const T* xr = x + r * row->x;
      const T* ar = a + r * row->a;
      const T* br = b + r * row->b;
      double* to = terms + r * columns;
      const double a0 = *ar;
      const double b0 = *br;
      QTAPE_INDEPENDENT
      for (int64_t c = 0; c < columns; ++c) {
        to[c] = f(double{xr[c]}, a_steps ? double{ar[c]} : a0, b_steps ? double{br[c]} : b0);
      }
    }
  });
}

template <class F, class T>
TermsLoop<T> choose_terms_loop(const WalkAxis& columns) {
  if (columns.extent > 1 && columns.a == 0) return terms_loop<F, T, false, true>();
  if (columns.extent > 1 && columns.b == 0) return terms_loop<F, T, true, false>();
  return terms_loop<F, T, true, true>();
}

}  // namespace detail

/// out (+)= f(x, a, b) for every element of x.
template <class T, class F>
Kernel bind_map(const F& f, MapWalk walk, Tensors<T> from, T* out, bool accumulate,
                int threads) {
  if (walk.elements == 0) return {};
  const auto loop = detail::choose_map_loop<F, T>(walk.columns);
  const AddLoop<T> add = accumulate ? add_loop<T>() : nullptr;
  return [f, walk = std::move(walk), from, out, add, loop, threads](const Step&) {
    parallel_for(threads, walk.elements, 1024, pointwise_grain,
                 [&](int64_t begin, int64_t end) {
                   walk.run(begin, end, add != nullptr ? accumulated_block : end - begin,
                            [&](const Offsets& at, int64_t rows, int64_t columns) {
                              write_or_add(out + at.x, rows * columns, add, [&](T* to) {
                                loop(&f, from.x + at.x, from.a + at.a, from.b + at.b, to,
                                     &walk.rows, rows, columns);
                              });
                            });
                 });
  };
}

/// out (+)= the sum of f(x, a, b) over the elements of x over which an element of a is
/// repeated, for every element of a, as `bind_sum_of` adds terms up. F has no state.
template <class F, class T>
Kernel bind_sum(SumWalk walk, Tensors<T> from, T* out, bool accumulate, int threads,
                double divisor = 1.0) {
  const auto terms = detail::choose_terms_loop<F, T>(walk.columns);
  return bind_sum_of(std::move(walk), from, terms, out, accumulate, threads, divisor);
}

}  // namespace qtape
