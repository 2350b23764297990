// MatMul: products of two matrices of codes, summed in integers.
#pragma once

#include "qtape/integer/core/integer_op.h"

namespace qtape::integer {

struct MatMul {
  static constexpr std::string_view name = "MatMul";
  static constexpr std::string_view doc =
      "y[..., i, j] = sum over t of (a[..., i, t] - zp_a) (b[..., t, j] - zp_b), in s32 if both "
      "have 8 bits and the sum always fits, else in s64. a codes [..., m, k], b codes [..., k, "
      "n] with the same leading extents, or [k, n]; `transpose_a` and `transpose_b`: stored as "
      "[..., k, m] and [..., n, k]. y accumulators with the scale s_a s_b.";

  bool transpose_a = false;
  bool transpose_b = false;

  static constexpr auto fields() {
    return std::tuple{field("transpose_a", &MatMul::transpose_a, "a is stored [..., k, m]"),
                      field("transpose_b", &MatMul::transpose_b, "b is stored [..., n, k]")};
  }

  /// Extents of the matrices, and distances in elements between neighbours along their axes.
  struct Extents {
    int64_t batch = 1;  ///< number of pairs of matrices
    int64_t m = 0;
    int64_t k = 0;
    int64_t n = 0;
    int64_t a_row = 0;   ///< from a[i, t] to a[i + 1, t]
    int64_t a_term = 0;  ///< from a[i, t] to a[i, t + 1]
    int64_t b_column = 0;
    int64_t b_term = 0;
    int64_t b_matrix = 0;  ///< from one matrix of b to the next; 0 if there is one alone
  };
  /// Returns the extents for operands of these shapes, which `infer` must have accepted.
  Extents extents(const Shape& a, const Shape& b) const;
  IntegerValue infer(IntegerInputs inputs) const;
  void update(const IntegerBinding& binding, IntegerValue& y) const;
  IntegerKernel reference(const IntegerBinding& binding) const;
  IntegerKernel optimized(const IntegerBinding& binding) const;
  /// Returns a kernel that passes its products to `next` while they are in cache; y is not
  /// written.
  IntegerKernel optimized(const IntegerBinding& binding, Epilogue next) const;
  bool operator==(const MatMul&) const = default;
};

}  // namespace qtape::integer
