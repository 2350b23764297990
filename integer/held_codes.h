// Which values of a graph could be held as codes alone.
#pragma once

#include <span>
#include <vector>

#include "qtape/integer/analysis.h"

namespace qtape {

/// Whether kernels of `op` may be bound to codes of operand 0, see OnCodes.
bool runs_on_codes(const Op& op);
/// Whether the value of a node is operand 0, bit for bit.
bool shows_operand(const Op& op);

/// By node: a node of `kept` is it or shows it.
std::vector<bool> shown_by(const Graph& graph, std::span<const NodeId> kept);

/// Whether `id` has 8-bit codes of a quantizer of f32 that stand for its value.
bool has_byte_codes(const Graph& graph, const IntegerAnalysis& analysis, NodeId id);

/// Codes of `grid` in `shape`, whose scale and zero point are not known yet.
IntegerValue codes_within(const Grid& grid, const Shape& shape);

/// No sum of so many products of codes x with weights of 8 bits is further from 0, whatever the
/// zero point is.
int64_t bound_of_products(const IntegerValue& x, int64_t terms);

/// What products give where an operand that is held as codes has a NaN: it has no code, may be
/// anywhere in the operand, and makes them all NaN.
void fill_without_codes(std::span<float> y);

}  // namespace qtape
