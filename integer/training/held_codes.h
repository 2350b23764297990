// Determines which values of a graph can be held as codes alone.
#pragma once

#include <span>
#include <vector>

#include "qtape/integer/rules/lowering.h"

namespace qtape {

/// By node: true if a node of `kept` is this node or a view of it.
std::vector<bool> shown_by(const Graph& graph, std::span<const NodeId> kept);

/// True if the value of `id` is represented by 8-bit codes of an f32 quantizer.
bool has_byte_codes(const Graph& graph, const Lowered& lowered, NodeId id);

/// Returns codes of `grid` in `shape`, with scale and zero point not known yet.
IntegerValue codes_within(const Grid& grid, const Shape& shape);

/// Upper bound of |sum of `terms` products of codes x and 8-bit weights|, for any zero point.
int64_t bound_of_products(const IntegerValue& x, int64_t terms);

/// Fills y with NaN: codes cannot hold one, so an operand with a NaN makes the whole product
/// NaN.
void fill_without_codes(std::span<float> y);

}  // namespace qtape
