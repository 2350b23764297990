// Contract of an op of an integer program.
#pragma once

#include <functional>
#include <span>

#include "qtape/core/code_types.h"
#include "qtape/core/requantization.h"
#include "qtape/integer/core/certificate.h"
#include "qtape/integer/core/integer_value.h"
#include "qtape/ops/core/op.h"

namespace qtape {

struct Epilogue;
struct IntegerBinding;
enum class ProductPath : uint8_t;

/// Functions of one bound node. Neither allocates once `load` has run.
struct IntegerKernel {
  /// Loads the current numbers of the op and its values. Called before the first run and
  /// whenever they have changed. Empty if there is nothing to load. A fault can occur only on
  /// tapes, whose numbers are not validated in advance.
  std::function<Fault()> load = {};
  /// Throws GraphError for values that have no code (NaN).
  std::function<void()> run = {};
};

/// Memory in which the result of an op may lie; returned by its function `placement`, Own if
/// there is none.
enum class Placement : uint8_t {
  Own,      ///< in its own memory
  InPlace,  ///< in the memory of operand 0, if both have as many elements and bytes
  View      ///< equal to operand 0 bit for bit; a kernel bound to the memory of operand 0 does
            ///< nothing
};

/// Operands of an integer op, in order.
using IntegerInputs = std::span<const IntegerValue>;

/// `infer` is the only function that validates; it throws GraphError. `update` sets scales,
/// zero point and range of the value that `infer` returned, from numbers changed since; it
/// neither throws nor allocates. `reference` is the oracle: plain loops over integers.
/// `optimized` returns the fast kernel, with the same result bit for bit; it reads the numbers
/// of the op in place.
template <class X>
concept IntegerCompute = std::equality_comparable<X> && std::default_initializable<X> &&
    Described<X> && requires(const X& op, IntegerInputs inputs, const IntegerBinding& binding,
                             IntegerValue& output) {
  { X::name } -> std::convertible_to<std::string_view>;
  { X::doc } -> std::convertible_to<std::string_view>;
  { op.infer(inputs) } -> std::same_as<IntegerValue>;
  { op.update(binding, output) } -> std::same_as<void>;
  { op.reference(binding) } -> std::same_as<IntegerKernel>;
  { op.optimized(binding) } -> std::same_as<IntegerKernel>;
};

/// Throws GraphError unless there are `count` operands.
inline void check_operands(IntegerInputs inputs, size_t count) {
  check(inputs.size() == count, "expected {} operands, got {}", count, inputs.size());
}

}  // namespace qtape
