// The contract of an op of an integer program.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "qtape/deploy/certificate.h"
#include "qtape/deploy/integer_value.h"
#include "qtape/ops/core/code_types.h"
#include "qtape/ops/core/op.h"
#include "qtape/ops/core/requantize.h"

namespace qtape {

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

/// Runs one node. Throws GraphError for data that has no codes (NaN), and allocates nothing.
using IntegerKernel = std::function<void()>;

using IntegerInputs = std::span<const IntegerValue>;

/// `infer` is the only place that validates; it throws GraphError. `reference` is the oracle:
/// plain loops over integers. `kernel` is what runs fast, with the same result bit for bit.
template <class X>
concept IntegerCompute = std::equality_comparable<X> && std::default_initializable<X> &&
    Described<X> && requires(const X& op, IntegerInputs inputs, const IntegerBinding& binding) {
  { X::name } -> std::convertible_to<std::string_view>;
  { X::doc } -> std::convertible_to<std::string_view>;
  { op.infer(inputs) } -> std::same_as<IntegerValue>;
  { op.reference(binding) } -> std::same_as<IntegerKernel>;
  { op.kernel(binding) } -> std::same_as<IntegerKernel>;
};

/// Throws GraphError for another number of operands.
inline void check_operands(IntegerInputs inputs, size_t count) {
  check(inputs.size() == count, "expected {} operands, got {}", count, inputs.size());
}

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

}  // namespace qtape
