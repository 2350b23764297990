// Integer ops in C99: each by its overload of `write`, in the file of its family in ops/.
#pragma once

#include <cstdint>
#include <string_view>

#include "qtape/c99/c_source.h"
#include "qtape/integer/ops/integer_ops.h"

namespace qtape {

// clang-format off
/// An integer op that has C99. Its functions, of which `scratch` and `store` are for
/// ops that need memory and for those with an epilogue:
///
///   void write(const X&, CNode&)                 adds the statements that compute it to node.code
///   int64_t scratch(const X&, const CUse&)       bytes needed in addition to operands and result
///   CStore store(const X&, CNode&, const IntegerValue& x, std::string_view sum)
///                                                conversion of one sum of the accumulators `x`,
///                                                which are added in the C type `sum`
// clang-format on
template <class X>
concept WritesC = requires(const X& op, CNode& node) {
  write(op, node);
};

/// Adds the statements of any op to `node.code`.
void write_c(const IntegerOp& op, CNode& node);
/// Returns the bytes of scratch that the C of an op needs.
int64_t c_scratch(const IntegerOp& op, const CUse& use);
/// Returns the conversion of one sum by an op that has an epilogue. Throws GraphError for
/// others.
CStore c_store(const IntegerOp& op, CNode& node, const IntegerValue& x, std::string_view sum);

}  // namespace qtape
