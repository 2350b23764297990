// Matrix products, prepared once and executed many times.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "qtape/core/types.h"

namespace qtape::kernels {

/// c [batch, m, n] (+)= a [batch, m, k] b [batch, k, n], all dense row-major.
struct Gemm {
  int64_t batch = 1;
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  bool transpose_a = false;  ///< a is stored [batch, k, m]
  bool transpose_b = false;  ///< b is stored [batch, n, k]
  bool accumulate = false;   ///< add the product to c
};

/// Prepares an f32 product on oneDNN that runs in up to `threads` threads. The result is
/// divided into tiles by its extents alone and oneDNN computes each tile in one thread, so the
/// bits are equal at any thread count. Call the result within the lifetime of a ComputingThread
/// (threads.h).
std::function<void()> prepare_gemm(const Gemm& gemm, const float* a, const float* b, float* c,
                                   int threads);

/// True if the processor supports products of bf16 and oneDNN may use them.
bool has_bf16_products();

/// Prepares a product of bf16 operands with sums in f32; otherwise like the f32 product. If
/// has_bf16_products is false, it is slow or throws GraphError.
std::function<void()> prepare_gemm(const Gemm& gemm, const BHalf* a, const BHalf* b, float* c,
                                   int threads);

/// Source of the columns of b: writes columns [begin, end) as [k, end - begin].
using ColumnSource = std::function<void(int64_t begin, int64_t end, float* to)>;

/// True if a product runs at full speed with a ColumnSource. False for a batch.
bool runs_by_columns(const Gemm& gemm);

/// Bytes of scratch per thread for a product with a ColumnSource.
int64_t column_scratch(const Gemm& gemm);

/// Prepares an f32 product of batch 1 whose b is provided by a ColumnSource. Several threads
/// call the source concurrently. `scratch`: column_scratch bytes per thread, 64-byte aligned.
std::function<void()> prepare_gemm(const Gemm& gemm, const float* a, ColumnSource b, float* c,
                                   std::byte* scratch, int threads);

/// Prepares an f64 product: plain loops, sums in order of k.
std::function<void()> prepare_gemm(const Gemm& gemm, const double* a, const double* b,
                                   double* c, int threads);

}  // namespace qtape::kernels
