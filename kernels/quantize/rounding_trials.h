// Known codes: the loops that round to codes are tried before they are used.
#pragma once

#include <string>

#include "qtape/kernels/quantize/quantize_kernels.h"
#include "qtape/kernels/quantize/requantize_kernels.h"

namespace qtape::kernels {

/// Loops that round, by default those for this processor.
struct RoundingLoops {
  RequantizeLoop<int8_t> (*requantize)(Requantization) = requantize_loop<int8_t>;
  PairLoop (*add)(Requantization) = add_loop;
  PairLoop (*multiply)(Requantization) = multiply_loop;
  QuantizeLoops<float>::Quantize quantize = quantize_loops<float>({}).quantize;
};

/// Name of the first loop whose codes of known sums, pairs or floats differ from those of the
/// scalar functions; empty if there is none.
std::string rounding_error(const RoundingLoops& loops);

/// Throws Error, which names the loop, unless all of them round known values exactly on this
/// processor. They are tried once in a process, in well under a millisecond.
void require_exact_rounding();

}  // namespace qtape::kernels
