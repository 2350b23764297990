#include "qtape/kernels/quantize/rounding_trials.h"

#include <doctest/doctest.h>

using namespace qtape;
using namespace qtape::kernels;

namespace {

// A loop of another arithmetic stands for a processor that computes wrongly.
RequantizeLoop<int8_t> wrong_codes(Requantization requantization) {
  return requantize_loop<int8_t>(requantization == Requantization::SingleRounding
                                     ? Requantization::DoubleRounding
                                     : requantization);
}
PairLoop wrong_sums(Requantization requantization) {
  return requantization == Requantization::OnnxQdq ? multiply_loop(requantization)
                                                   : add_loop(requantization);
}
PairLoop wrong_products(Requantization requantization) { return add_loop(requantization); }

/// The last element of a vector is that before it.
void wrong_floats(const float* x, float* y, uint64_t* mask, int64_t n,
                  const QuantizeChunk<float>* chunk) {
  quantize_loops<float>({}).quantize(x, y, mask, n, chunk);
  y[7] = y[6];
}

}  // namespace

TEST_CASE("rounding: loops that round known values otherwise are named") {
  CHECK(rounding_error({}).empty());
  CHECK_NOTHROW(require_exact_rounding());
  CHECK(rounding_error({.requantize = wrong_codes}) == "codes of sums by SingleRounding");
  CHECK(rounding_error({.add = wrong_sums}) == "sums of codes by OnnxQdq");
  CHECK(rounding_error({.multiply = wrong_products}) ==
        "products of pairs of codes by FloatMultiply");
  CHECK(rounding_error({.quantize = wrong_floats}) == "codes of floats");
}
