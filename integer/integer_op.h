// The contract of an op of an integer program.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "qtape/core/code_types.h"
#include "qtape/core/requantization.h"
#include "qtape/integer/certificate.h"
#include "qtape/integer/integer_value.h"
#include "qtape/ops/core/op.h"

namespace qtape {

struct IntegerBinding;

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

}  // namespace qtape
