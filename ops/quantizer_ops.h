// Queries of ops that may be quantizers.
#pragma once

#include "qtape/ops/core/quantizer_op.h"
#include "qtape/ops/ops.h"

namespace qtape {

/// True if `op` satisfies the concept Quantizer.
bool is_quantizer(const Op& op);
/// Granularity of the quantizer `op`. Throws GraphError for other ops.
Granularity granularity_of(const Op& op);
/// Grid of the quantizer `op`. Throws GraphError for other ops.
Grid grid_of(const Op& op);
/// Operands of the quantizer `op` after x. Throws GraphError for other ops.
std::vector<QuantizerOperand> operands_of(const Op& op);

/// Returns the result of `body(op)` with the concrete type of the quantizer. Throws GraphError
/// for other ops.
template <class Body>
auto visit_quantizer(const Op& op, const Body& body) {
  using Result = decltype(body(FakeQuantize{}));
  return std::visit(
      [&]<class T>(const T& each) -> Result {
        if constexpr (Quantizer<T>) return body(each);
        fail<GraphError>("{} is not a quantizer", T::name);
      },
      op);
}

}  // namespace qtape
