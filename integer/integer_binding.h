// What the kernels of integer ops are bound to.
#pragma once

#include <cstddef>
#include <vector>

#include "qtape/core/code_types.h"
#include "qtape/core/requantization.h"
#include "qtape/integer/integer_op.h"
#include "qtape/integer/product_path.h"
#include "qtape/kernels/quantize/requantize.h"

namespace qtape {

using namespace kernels;

/// Memory and context of one node. Operands and result are dense and 64-byte aligned.
struct IntegerBinding {
  std::vector<IntegerValue> inputs;
  IntegerValue output;
  std::vector<std::byte*> operands;
  std::byte* result = nullptr;
  Requantization requantization = Requantization::FloatMultiply;
  int threads = 1;
  /// How Linear multiplies; empty: by exact_path. Another one may be inexact: for tests.
  std::optional<ProductPath> path = std::nullopt;

  template <class T>
  const T* operand(size_t i) const {
    return reinterpret_cast<const T*>(operands[i]);
  }
  template <class T>
  T* y() const {
    return reinterpret_cast<T*>(result);
  }
};

/// Calls `body.template operator()<T>()` with the storage type of s32 or s64.
template <class Body>
auto dispatch_accumulators(DType dtype, const Body& body) {
  return dtype == DType::S64 ? body.template operator()<int64_t>()
                             : body.template operator()<int32_t>();
}

/// The same for codes or accumulators.
template <class Body>
auto dispatch_integers(DType dtype, const Body& body) {
  const bool accumulators = dtype == DType::S32 || dtype == DType::S64;
  return accumulators ? dispatch_accumulators(dtype, body) : dispatch_codes(dtype, body);
}

namespace integer {

/// From the scales of `x` to `scale`. Throws GraphError for scales that cannot be.
std::vector<Multiplier> multipliers_of(const IntegerValue& x, double scale);

}  // namespace integer
}  // namespace qtape
