// Sums over the axes along which an operand is repeated, in double and in a fixed order.
#pragma once

#include "qtape/ops/core/op.h"
#include "qtape/ops/families/reduction.h"

namespace qtape {

/// Operands of a MapWalk or a SumWalk.
template <class T>
struct Tensors {
  const T* x = nullptr;
  const T* a = nullptr;
  const T* b = nullptr;
};

/// Computes `columns` terms of each of `rows` rows, densely, from x, a and b, whose rows are
/// apart as the axis says.
template <class T>
using TermsLoop = void (*)(const T* x, const T* a, const T* b, double* terms,
                           const WalkAxis* row, int64_t rows, int64_t columns);

/// out (+)= (sum of the terms of the elements of x over which an element of a is repeated) /
/// divisor, for every element of a. Without `terms` these are the elements of x. Sums are in
/// double: in index order if the last axis is kept (a sum over all rows of a matrix in up to 16
/// pieces), otherwise in 16 interleaved partial sums.
template <class T>
Kernel bind_sum_of(SumWalk walk, Tensors<T> from, TermsLoop<T> terms, T* out, bool accumulate,
                   int threads, double divisor = 1.0);

extern template Kernel bind_sum_of(SumWalk, Tensors<float>, TermsLoop<float>, float*, bool, int,
                                   double);
extern template Kernel bind_sum_of(SumWalk, Tensors<double>, TermsLoop<double>, double*, bool,
                                   int, double);

}  // namespace qtape
