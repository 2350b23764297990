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

struct Epilogue;
struct IntegerBinding;
enum class ProductPath : uint8_t;

/// What one bound node runs. Both allocate nothing once `load` has run.
struct IntegerKernel {
  /// Takes over the numbers that the op and its values have now; called before the first run
  /// and whenever they changed. Empty where there are none. A fault is for tapes, whose numbers
  /// nobody could check before.
  std::function<Fault()> load = {};
  /// Throws GraphError for data that has no codes (NaN).
  std::function<void()> run = {};
};

/// Where an op's result may lie; told by a function `placement`, Own where there is none.
enum class Placement : uint8_t {
  Own,      ///< in memory of its own
  InPlace,  ///< over operand 0, if that has as many bytes
  View      ///< it is operand 0, bit for bit; a kernel bound to it there does nothing
};

/// Operands of an integer op, in their order.
using IntegerInputs = std::span<const IntegerValue>;

/// `infer` is the only place that validates; it throws GraphError. `update` gives scales, zero
/// point and range of the value that `infer` gave, from numbers that changed since; it neither
/// throws nor allocates. `reference` is the oracle: plain loops over integers. `kernel` is what
/// runs fast, with the same result bit for bit; it reads the numbers of the op where that is.
template <class X>
concept IntegerCompute = std::equality_comparable<X> && std::default_initializable<X> &&
    Described<X> && requires(const X& op, IntegerInputs inputs, const IntegerBinding& binding,
                             IntegerValue& output) {
  { X::name } -> std::convertible_to<std::string_view>;
  { X::doc } -> std::convertible_to<std::string_view>;
  { op.infer(inputs) } -> std::same_as<IntegerValue>;
  { op.update(binding, output) } -> std::same_as<void>;
  { op.reference(binding) } -> std::same_as<IntegerKernel>;
  { op.kernel(binding) } -> std::same_as<IntegerKernel>;
};

/// Throws GraphError for another number of operands.
inline void check_operands(IntegerInputs inputs, size_t count) {
  check(inputs.size() == count, "expected {} operands, got {}", count, inputs.size());
}

}  // namespace qtape
