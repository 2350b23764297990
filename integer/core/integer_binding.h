// Memory and context to which the kernels of integer ops are bound.
#pragma once

#include <cstddef>
#include <vector>

#include "qtape/core/code_types.h"
#include "qtape/core/requantization.h"
#include "qtape/integer/core/integer_op.h"
#include "qtape/integer/core/product_path.h"
#include "qtape/kernels/quantize/requantize.h"

namespace qtape {

using namespace kernels;

/// Numbers of constant weights that are not stored in the op but come from the current step of
/// a tape.
struct WeightNumbers {
  const int8_t* codes = nullptr;   ///< [n, k], or [k, n] if not `rows`
  bool rows = true;                ///< true if the weights of an output are consecutive
  std::vector<float> scales = {};  ///< [n] or [1]
  std::vector<int32_t> bias = {};  ///< [n], or empty
};

/// Memory and context of one node. Operands and result are dense and 64-byte aligned. Pointers
/// must stay valid while the kernel is in use.
struct IntegerBinding {
  std::vector<const IntegerValue*> inputs = {};
  const IntegerValue* output = nullptr;
  std::vector<std::byte*> operands = {};
  std::byte* result = nullptr;
  Requantization requantization = Requantization::FloatMultiply;
  int threads = 1;
  /// Path by which products are computed; empty: exact_path chooses. Any other path may be
  /// inexact and is meant for tests.
  std::optional<ProductPath> path = std::nullopt;
  const WeightNumbers* weights = nullptr;  ///< used instead of the op's own weights
  /// True if numbers change from run to run, so that large lookup tables do not pay off.
  bool refreshed = false;

  const IntegerValue& in(size_t i) const { return *inputs[i]; }
  const IntegerValue& out() const { return *output; }
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

/// Calls `body.template operator()<T>()` with the storage type of codes or accumulators.
template <class Body>
auto dispatch_integers(DType dtype, const Body& body) {
  const bool accumulators = dtype == DType::S32 || dtype == DType::S64;
  return accumulators ? dispatch_accumulators(dtype, body) : dispatch_codes(dtype, body);
}

namespace integer {

/// Returns the multiplier from channel `c` of `x`, codes or accumulators, to a grid of `scale`.
/// Throws ArgumentError for invalid scales.
Multiplier multiplier_to(double scale, const IntegerValue& x, size_t c,
                         Requantization requantization);
/// Loads the multipliers of all channels of `x`; returns a fault for invalid scales.
Fault load_multipliers(const IntegerValue& x, double scale, Requantization requantization,
                       std::vector<Multiplier>& to);

}  // namespace integer
}  // namespace qtape
