// Queries of ops that may be quantizers.
#pragma once

#include <tuple>

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

namespace detail {
template <class... X>
auto quantizers_among(std::type_identity<std::variant<X...>>) {
  return std::tuple_cat(
      std::conditional_t<Quantizer<X>, std::tuple<const X*>, std::tuple<>>()...);
}
template <class... X>
std::variant<X...> variant_of(const std::tuple<X...>&);
}  // namespace detail

/// A pointer to a quantizer of one of the types that the list of ops has.
using QuantizerPointer = decltype(detail::variant_of(
    detail::quantizers_among(std::type_identity<OpAlternatives>())));
/// The quantizer that `op` holds. Throws GraphError for other ops.
QuantizerPointer quantizer_in(const Op& op);

/// Returns the result of `body(op)` with the concrete type of the quantizer. Throws GraphError
/// for other ops.
template <class Body>
auto visit_quantizer(const Op& op, const Body& body) {
  return std::visit([&](const auto* each) { return body(*each); }, quantizer_in(op));
}

}  // namespace qtape
