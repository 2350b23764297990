// C code that converts sums to codes by the program's requantization.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "qtape/c99/c_source.h"
#include "qtape/integer/core/quantized_weights.h"

namespace qtape {

/// Returns the C function that converts sums to codes of the grid `to`; sums have the C type
/// `sum` and the scales of `x`.
CStore store_codes(CNode& node, const IntegerValue& x, const CodeGrid& to,
                   std::string_view sum);

/// Returns true if CMSIS-NN computes this requantization when compiled with
/// CMSIS_NN_USE_SINGLE_ROUNDING, false if without it; nullopt if CMSIS-NN does not support it.
std::optional<bool> cmsis_single_rounding(Requantization requantization);
/// True if CMSIS-NN computes this requantization with CMSIS_NN_USE_SINGLE_ROUNDING; false if it
/// does not support it.
bool rounds_once(Requantization requantization);
/// Returns why CMSIS-NN cannot replace the program's own arithmetic for the sums of `weights`
/// and their requantization; empty if it can. CMSIS-NN requires s8, and wraps around at 32 bits
/// where the program saturates at the end of a grid.
std::string not_by_cmsis_nn(const CUse& use, const QuantizedWeights& weights);
/// Returns why CMSIS-NN cannot add codes `a` and `b` as the program does; empty if it can.
std::string not_a_sum_by_cmsis_nn(const IntegerValue& a, const IntegerValue& b,
                                  const CodeGrid& to);
/// Returns the CMSIS-NN argument for the grid `to`, with one ratio per channel for `channels`
/// channels, or one for all. `not_by_cmsis_nn` must have returned no reason.
std::string cmsis_grid(CNode& node, const IntegerValue& x, const CodeGrid& to,
                       int64_t channels);
/// Returns the CMSIS-NN argument for a sum.
std::string cmsis_sum(CNode& node, const IntegerValue& a, const IntegerValue& b,
                      const CodeGrid& to);

/// A C function `code(a, b, terms)` of two codes with their zero points subtracted, and its
/// terms.
struct CCodeSum {
  std::string function;
  std::string terms;
};
/// Returns the function that computes codes of sums of `a` and `b` on the grid `to`.
CCodeSum code_sum(CNode& node, const IntegerValue& a, const IntegerValue& b,
                  const CodeGrid& to);

}  // namespace qtape
