// Known products: each shape for which oneDNN must be exact is tried before it is used.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "qtape/kernels/onednn/gemm.h"
#include "qtape/kernels/onednn/integer_gemm.h"

namespace qtape::kernels {

/// A product of codes: acc [rows, n] = x [rows, k] w^T.
struct CodeProduct {
  int64_t rows = 0;
  int64_t n = 0;
  int64_t k = 0;
  DType x = DType::U8;
  Int8Weights weights = Int8Weights::Constant;
  auto operator<=>(const CodeProduct&) const = default;
};

/// Throws Error, which names oneDNN, its instruction set and the product, unless oneDNN
/// computes a known product of this shape exactly by Int8Product. Each shape is tried once in a
/// process, in about the time of one product and of generating its operands.
void require_exact_int8(const CodeProduct& product);

/// The same for products of codes in f32: prepare_gemm with batch 1, transpose_b unless the
/// weights are Columns, in one thread.
void require_exact_f32(const CodeProduct& product);

/// Operands of a known product: codes of the dtype of x, and weights in the layout that the
/// product names, so small that sums of pairs fit 16 bits and all sums 24.
struct KnownOperands {
  std::span<const int16_t> x;  // [rows, k]
  std::span<const int8_t> w;
};

/// Computes acc from the operands. Returns false if it cannot.
using Multiply = std::function<bool(const KnownOperands& operands, std::span<int32_t> acc)>;

/// Returns "" if `multiply` computes a known product of this shape exactly; otherwise the first
/// row with a wrong accumulator, as text. Sums of rows, modulo 2^32 and weighted by random odd
/// numbers, are compared instead of accumulators: one wrong accumulator in a row always shows,
/// several do except by a chance of 2^-31.
std::string known_product_error(const CodeProduct& product, const Multiply& multiply);

}  // namespace qtape::kernels
