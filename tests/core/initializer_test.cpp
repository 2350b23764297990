#include "qtape/core/initializer.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "qtape/engine/parameters.h"
#include "qtape/ops/ops.h"
#include "qtape/tests/support/errors.h"

using namespace qtape;

namespace {

struct Moments {
  double mean = 0;
  double deviation = 0;
  double largest = 0;
};

Moments moments_of(const Initializer& initializer, const Shape& shape) {
  std::vector<double> x(static_cast<size_t>(shape.elements()));
  initialize(initializer, 1, "w", {DType::F64, shape}, reinterpret_cast<std::byte*>(x.data()));
  Moments m;
  for (double v : x) {
    m.mean += v / static_cast<double>(x.size());
    m.largest = std::max(m.largest, std::fabs(v));
  }
  for (double v : x) m.deviation += (v - m.mean) * (v - m.mean) / static_cast<double>(x.size());
  m.deviation = std::sqrt(m.deviation);
  return m;
}

std::string error_of(const Parameter& parameter) {
  return test::error_text<GraphError>([&] { (void)parameter.infer({}); });
}

}  // namespace

TEST_CASE("initializers: moments and bounds are those of the papers") {
  const Shape shape{300, 400};
  CHECK(moments_of(init::Zeros{}, shape).largest == 0);
  CHECK(moments_of(init::Fill{.value = 2.5}, shape).mean == doctest::Approx(2.5));
  const Moments kaiming = moments_of(init::KaimingNormal{}, shape);
  CHECK(kaiming.deviation == doctest::Approx(std::sqrt(2.0 / 400)).epsilon(0.01));
  CHECK(std::fabs(kaiming.mean) < 1e-3);
  CHECK(kaiming.largest > 4 * kaiming.deviation);
  const Moments uniform = moments_of(init::KaimingUniform{}, shape);
  CHECK(uniform.largest == doctest::Approx(std::sqrt(6.0 / 400)).epsilon(0.001));
  CHECK(uniform.deviation == doctest::Approx(std::sqrt(2.0 / 400)).epsilon(0.01));
  const Moments xavier = moments_of(init::XavierNormal{}, shape);
  CHECK(xavier.deviation == doctest::Approx(std::sqrt(2.0 / 700)).epsilon(0.01));
  CHECK(moments_of(init::XavierUniform{}, shape).largest ==
        doctest::Approx(std::sqrt(6.0 / 700)).epsilon(0.001));
}

TEST_CASE("initializers: filters have the terms of a window, and groups their share") {
  const Shape filters{60, 3, 3, 40};
  CHECK(moments_of(init::KaimingNormal{}, filters).deviation ==
        doctest::Approx(std::sqrt(2.0 / 360)).epsilon(0.02));
  CHECK(moments_of(init::XavierUniform{}, filters).largest ==
        doctest::Approx(std::sqrt(6.0 / (360 + 540))).epsilon(0.001));
  const Shape depthwise{2000, 5, 1};
  CHECK(moments_of(init::XavierUniform{.groups = 1000}, depthwise).largest ==
        doctest::Approx(std::sqrt(6.0 / (5 + 10))).epsilon(0.001));
  CHECK(moments_of(init::XavierNormal{.groups = 2000}, depthwise).deviation ==
        doctest::Approx(std::sqrt(2.0 / (5 + 5))).epsilon(0.03));
}

TEST_CASE("initializers: values depend on seed and name alone") {
  const Shape shape{4, 4};
  const auto draw = [&](uint64_t seed, std::string_view name) {
    std::vector<float> x(16);
    initialize(init::KaimingNormal{}, seed, name, {DType::F32, shape},
               reinterpret_cast<std::byte*>(x.data()));
    return x;
  };
  CHECK(draw(1, "a") == draw(1, "a"));
  CHECK(draw(1, "a") != draw(2, "a"));
  CHECK(draw(1, "a") != draw(1, "b"));
}

TEST_CASE("initializers: what does not suit a parameter is refused") {
  CHECK(error_of({.shape = {3}, .initializer = init::KaimingNormal{}}) ==
        "KaimingNormal needs rank >= 2, got shape [3]: use Zeros or Fill");
  CHECK(error_of({.shape = {3, 3}, .initializer = init::XavierUniform{.gain = NAN}}) ==
        "gain of XavierUniform must be finite, got nan");
  CHECK(error_of({.shape = {4, 3, 1}, .initializer = init::XavierNormal{.groups = 3}}) ==
        "groups of XavierNormal must divide the first extent of [4, 3, 1], got 3");
  CHECK(error_of({.shape = {4, 3, 1}, .initializer = init::XavierUniform{.groups = 0}}) ==
        "groups of XavierUniform must divide the first extent of [4, 3, 1], got 0");
  CHECK(error_of({.shape = {3}, .initializer = init::Fill{.value = INFINITY}}) ==
        "value of Fill must be finite, got inf");
  CHECK(error_of({.dtype = DType::S8, .shape = {3}}) == "expected f32 or f64, got s8");
}
