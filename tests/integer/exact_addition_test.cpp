// Exact error messages for scales whose codes cannot be added.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "qtape/integer/training/exact.h"
#include "qtape/tests/support/errors.h"
#include "qtape/tests/support/small_nets.h"

using namespace qtape;

namespace {

/// Returns the error of an exact forward pass of quantized a + b.
std::string error_of(double a_scale, double b_scale, double y_scale) {
  const FakeQuantize fixed{.scale_mode = Fixed{}};
  test::Net net({1, 4});
  const NodeId a = net.quantized(net.x, fixed, "a");
  const NodeId b = net.quantized(net.x, fixed, "b");
  const NodeId y = net.quantized(net.add(Add{}, {a, b}), fixed, "y");
  net.graph.set_outputs({y});
  Parameters parameters = net.with_scales({{a, a_scale}, {b, b_scale}, {y, y_scale}});
  Tape tape(net.graph, parameters, {.arithmetic = exact(Requantization::FloatMultiply)});
  return test::error_text<GraphError>([&] { tape.forward(mode::eval); });
}

}  // namespace

TEST_CASE("exact addition: scales of a sum that are too far apart or too large are told") {
  CHECK(error_of(0.5, 0.25, 1) == "no error");
  const double ratio = double{1e10f} / double{1e-10f};
  const std::string apart = fmt::format(
      ": the scales of two summands and their sum must differ by less than a factor of 2^64; the largest is {} times the smallest",
      ratio);
  CHECK(error_of(1e-10, 1, 1e10).ends_with(apart));
  CHECK(error_of(1, 1e10, 1e-10).ends_with(apart));
  const std::string large = fmt::format(
      ": integer sums need normal f32 scales below 2^100; one is {}", double{2e30f});
  CHECK(error_of(1, 2e30, 1).ends_with(large));
  CHECK(error_of(1, 1, 2e30).ends_with(large));
}
