// Matrix products, prepared once and run many times.
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
  bool accumulate = false;   ///< add to c
};

/// Prepares an f32 product on oneDNN, run by up to `threads` threads. The result is cut into
/// tiles by its extents alone and oneDNN computes each tile in one thread, so it has equal bits
/// at any thread count. Call the result within a SerialLibraries (thread_count.h).
std::function<void()> prepare_gemm(const Gemm& gemm, const float* a, const float* b, float* c,
                                   int threads);

/// Whether products of bf16 run here: the processor, and what oneDNN may use of it.
bool has_bf16_products();

/// The same as the f32 product, of operands of bf16, with sums in f32. Slow, or refused with
/// GraphError, where has_bf16_products says no.
std::function<void()> prepare_gemm(const Gemm& gemm, const BHalf* a, const BHalf* b, float* c,
                                   int threads);

/// Gives b a few columns at a time: writes columns [begin, end) as [k, end - begin].
using ColumnSource = std::function<void(int64_t begin, int64_t end, float* to)>;

/// Whether a product whose b is given by columns runs at full speed. A batch has none.
bool runs_by_columns(const Gemm& gemm);

/// Bytes that each thread needs to run a product whose b is given by columns.
int64_t column_scratch(const Gemm& gemm);

/// The same as the f32 product, of a batch of 1 and with b as ColumnSource gives it, called by
/// several threads at a time. `scratch`: column_scratch bytes for each thread, 64-byte aligned.
std::function<void()> prepare_gemm(const Gemm& gemm, const float* a, ColumnSource b, float* c,
                                   std::byte* scratch, int threads);

/// Prepares an f64 product: plain loops, sums in order of k.
std::function<void()> prepare_gemm(const Gemm& gemm, const double* a, const double* b,
                                   double* c, int threads);

}  // namespace qtape::kernels
