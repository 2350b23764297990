// What becomes of sums in C: codes, as the program's requantization makes them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "qtape/c99/c_source.h"

namespace qtape {

/// Codes of the grid `to`, of sums in the C type `sum` that have the scales of `x`.
CStore store_codes(CNode& node, const IntegerValue& x, const CodeGrid& to,
                   std::string_view sum);

/// Whether CMSIS-NN computes this requantization compiled with CMSIS_NN_USE_SINGLE_ROUNDING;
/// nothing where it does not compute it at all.
std::optional<bool> cmsis_single_rounding(Requantization requantization);
/// The same, false for these.
bool rounds_once(Requantization requantization);
/// Why CMSIS-NN does not take codes to sums no further from 0 than `bound`, and these to codes
/// as the program does: it takes s8, and wraps around at 32 bits where the program goes to the
/// end of a grid. Empty where it does.
std::string not_by_cmsis_nn(const CUse& use, int64_t bound);
/// The same of sums of codes `a` and `b`.
std::string not_a_sum_by_cmsis_nn(const IntegerValue& a, const IntegerValue& b,
                                  const CodeGrid& to);
/// The argument of the grid `to` for CMSIS-NN, with ratios of each of `channels`, or of all.
std::string cmsis_grid(CNode& node, const IntegerValue& x, const CodeGrid& to,
                       int64_t channels);
/// The argument of a sum for CMSIS-NN.
std::string cmsis_sum(CNode& node, const IntegerValue& a, const IntegerValue& b,
                      const CodeGrid& to);

/// A C function `code(a, b, terms)` of two codes less their zero points, and its terms.
struct CCodeSum {
  std::string function;
  std::string terms;
};
/// The codes of sums of `a` and `b` on the grid `to`.
CCodeSum code_sum(CNode& node, const IntegerValue& a, const IntegerValue& b,
                  const CodeGrid& to);

}  // namespace qtape
