// Graph ops that move codes unchanged, such as Concat, Slice and Reshape: their elements may
// have any dtype.
#pragma once

#include "qtape/integer/core/integer_op.h"
#include "qtape/ops/concat.h"
#include "qtape/ops/reshape.h"
#include "qtape/ops/slice.h"

namespace qtape::integer {

/// The graph op `Op` applied to codes of one grid; y has codes of the same grid. Attributes,
/// shapes and the fast kernel are those of `Op`; the reference is a separate loop.
template <class Op>
struct Structure : Op {
  static constexpr std::string_view doc = *Op::docs.summary.begin();
  static constexpr auto fields() { return Op::fields(); }

  Placement placement() const { return this->keep().view ? Placement::View : Placement::Own; }
  IntegerValue infer(IntegerInputs inputs) const;
  void update(const IntegerBinding& binding, IntegerValue& y) const;
  IntegerKernel reference(const IntegerBinding& binding) const;
  IntegerKernel kernel(const IntegerBinding& binding) const;
  bool operator==(const Structure&) const = default;
};

/// Concatenation of codes along an axis.
using Concat = Structure<qtape::Concat>;
/// Codes of a range of indices along an axis.
using Slice = Structure<qtape::Slice>;
/// The same elements (codes, accumulators or floats) in another shape. Accumulators with a
/// scale per channel must keep their last axis.
using Reshape = Structure<qtape::Reshape>;

}  // namespace qtape::integer
