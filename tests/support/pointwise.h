// Building blocks for entries of pointwise ops.
#pragma once

#include <vector>

#include "qtape/tests/support/op_case.h"

namespace qtape::test {

/// Returns f(op, x) for each element; attributes are rounded to the dtype like the op's
/// numbers.
template <class X, class F>
ValueOracle elementwise(F f) {
  return [f](const OpUse& use, Arrays x) {
    const X& op = std::get<X>(use.op);
    const DType dtype = x[0].type.dtype;
    return mapped(x[0], [&](double v) { return f(op, v, dtype); });
  };
}

/// Returns uses with extents that leave remainders of vectors, words and blocks, and odd
/// numbers.
inline std::vector<OpUse> each_length(const Op& op, double low, double high, bool special) {
  std::vector<OpUse> uses;
  for (int64_t n : {int64_t{17}, int64_t{1}, int64_t{0}, int64_t{65}, int64_t{1025}}) {
    uses.push_back({op, {{{n}, low, high}}});
  }
  uses.push_back({op, {{{2, 3, 4}, low, high}}});
  uses.push_back({op, {{{}, low, high}}});
  if (special) uses.push_back({op, {{{99}, low, high, Fill::Special}}});
  return uses;
}

/// Returns a use of realistic size.
inline OpUse realistic(const Op& op, double low, double high) {
  return {op, {{{256, 512}, low, high}}};
}

/// Returns the refusal of integers.
inline std::vector<Refusal> not_computed(const Op& op) {
  return {{op, {s32({4})}, "expected f32 or f64, got s32"}};
}

}  // namespace qtape::test
