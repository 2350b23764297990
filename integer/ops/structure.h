// Graph ops that move codes unchanged, such as Concat, Slice and Reshape: their elements may
// have any dtype.
#pragma once

#include <functional>
#include <type_traits>

#include "qtape/integer/core/integer_op.h"
#include "qtape/ops/concat.h"
#include "qtape/ops/gather.h"
#include "qtape/ops/max_pool.h"
#include "qtape/ops/reshape.h"
#include "qtape/ops/slice.h"
#include "qtape/ops/transpose.h"
#include "qtape/ops/upsample.h"

namespace qtape::integer {

// Common code of all `Structure`; `infer` and `forward` are those of the graph op.

/// Checks that all operands are codes of one grid, without which they cannot be combined.
void check_one_grid(IntegerInputs inputs);
/// Operands of an op that moves elements. All but `Codes` include indices.
enum class Takes : uint8_t {
  Codes,    ///< codes of one grid
  Indices,  ///< one operand of codes or indices
  Floats,   ///< one operand of codes or floats, or accumulators with one scale
  All       ///< one operand of codes, floats or accumulators, whose last axis must be preserved
};
/// Returns the value of an op with `count` operands.
IntegerValue structure_value(IntegerInputs inputs, size_t count, Takes takes,
                             const std::function<TensorType(Inputs)>& infer);
/// Sets the grid of y to that of the operands, and its range to the union of theirs.
void update_structure(const IntegerBinding& binding, IntegerValue& y);
/// Returns the kernel that `forward` binds to the same codes.
IntegerKernel structure_kernel(const IntegerBinding& binding,
                               const std::function<Kernel(const Binding&)>& forward);

/// The graph op `Op` applied to codes of one grid, or to operands allowed by `Takes`; y has the
/// same grid. Attributes, shapes and the fast kernel are those of `Op`; the reference is a
/// separate loop.
template <class Op>
struct Structure : Op {
  static constexpr std::string_view doc = *Op::docs.summary.begin();
  static constexpr auto fields() { return Op::fields(); }

  static constexpr Takes takes = std::is_same_v<Op, qtape::Reshape>     ? Takes::All
                                 : std::is_same_v<Op, qtape::Transpose> ? Takes::Floats
                                 : std::is_same_v<Op, qtape::Slice>     ? Takes::Indices
                                 : std::is_same_v<Op, qtape::Gather>    ? Takes::Indices
                                                                        : Takes::Codes;

  Placement placement() const { return this->keep().view ? Placement::View : Placement::Own; }
  IntegerValue infer(IntegerInputs inputs) const {
    return structure_value(inputs, this->slots().size(), takes,
                           [this](Inputs types) { return Op::infer(types); });
  }
  void update(const IntegerBinding& binding, IntegerValue& y) const {
    update_structure(binding, y);
  }
  /// Specialized for each op, and declared there.
  IntegerKernel reference(const IntegerBinding& binding) const;
  IntegerKernel optimized(const IntegerBinding& binding) const {
    return structure_kernel(binding, [this](const Binding& b) { return this->forward(b); });
  }
  bool operator==(const Structure&) const = default;
};

/// Concatenation of codes along an axis.
using Concat = Structure<qtape::Concat>;
template <>
IntegerKernel Structure<qtape::Concat>::reference(const IntegerBinding& binding) const;
/// Codes or indices of a range along an axis.
using Slice = Structure<qtape::Slice>;
template <>
IntegerKernel Structure<qtape::Slice>::reference(const IntegerBinding& binding) const;
/// Codes or indices at constant positions along an axis.
using Gather = Structure<qtape::Gather>;
template <>
IntegerKernel Structure<qtape::Gather>::reference(const IntegerBinding& binding) const;
/// Elements (codes, floats or accumulators with one scale) with their axes permuted.
using Transpose = Structure<qtape::Transpose>;
template <>
IntegerKernel Structure<qtape::Transpose>::reference(const IntegerBinding& binding) const;
/// The same elements (codes, accumulators or floats) in another shape. Accumulators with a
/// scale per channel must keep their last axis.
using Reshape = Structure<qtape::Reshape>;
template <>
IntegerKernel Structure<qtape::Reshape>::reference(const IntegerBinding& binding) const;

// The largest code of each window, and codes repeated along an axis.
template <>
IntegerKernel Structure<qtape::MaxPool>::reference(const IntegerBinding& binding) const;
template <>
IntegerKernel Structure<qtape::Upsample>::reference(const IntegerBinding& binding) const;

}  // namespace qtape::integer
