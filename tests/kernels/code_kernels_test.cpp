// Loops that write integer codes, compared with the scalar functions.
#include "qtape/kernels/quantize/code_kernels.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "qtape/core/code_types.h"
#include "qtape/core/random.h"
#include "qtape/kernels/quantize/quantize.h"
#include "qtape/tests/support/first_difference.h"

using namespace qtape;
using namespace qtape::kernels;

namespace {

constexpr int64_t count = 1488;  // three segments that are multiples of the mask lanes

/// Ties and their neighbours, values at and beyond the ends of the codes, and values between.
std::vector<float> data_around(const QParams<float>& q, CodeLimits limits, uint64_t seed) {
  const Random random(seed, 1);
  std::vector<float> x;
  for (uint64_t i = 0; i < count; ++i) {
    const auto code =
        static_cast<float>(limits.q_min - 3 +
                           static_cast<int64_t>(random.below(
                               2 * i, static_cast<uint64_t>(limits.q_max - limits.q_min + 7))));
    float v = (code - q.zero_point) * q.scale;
    const float above = (code - q.zero_point + 0.5f) * q.scale;
    const float below = (code - q.zero_point - 0.5f) * q.scale;
    const uint64_t kind = random.below(2 * i + 1, 6);
    if (kind == 0) v = above;
    if (kind == 1) v = std::nextafter(above, 1e30f);
    if (kind == 2) v = std::nextafter(below, -1e30f);
    if (kind == 3) v += q.scale * static_cast<float>(random.uniform(i));
    x.push_back(v);
  }
  x[7] = std::numeric_limits<float>::infinity();
  x[8] = -std::numeric_limits<float>::infinity();
  x[9] = -0.0f;
  return x;
}

struct Trial {
  Grid grid;
  bool columns = false;
  std::vector<float> scale, inverse, zero_point;  // by channel

  Trial(const Grid& of, bool by_column, float first_scale, float zero) : grid(of) {
    columns = by_column;
    for (int64_t c = 0; c < (columns ? count : 3); ++c) {
      scale.push_back(first_scale * (1 + 0.37f * static_cast<float>(c % 5)));
      inverse.push_back(1 / scale.back());
      zero_point.push_back(zero);
    }
  }

  size_t channel(int64_t i) const { return static_cast<size_t>(columns ? i : i / 496); }
  QuantizeChunk<float> chunk() const {
    return {.scale = scale.data(),
            .inverse = inverse.data(),
            .zero_point = zero_point.data(),
            .segment = 496,
            .channels = 3,
            .q_min = static_cast<float>(grid.limits.q_min),
            .q_max = static_cast<float>(grid.limits.q_max),
            .before = grid.zero_point == ZeroPoint::BeforeRounding,
            .half_even = grid.rounding == Rounding::HalfEven,
            .away = grid.rounding == Rounding::HalfAway,
            .exact = grid.division == Division::Exact};
  }
  QuantizeVersion version() const {
    return {.rounding = grid.rounding,
            .division = grid.division,
            .masked = true,
            .columns = columns,
            .plain = grid.zero_point == ZeroPoint::AfterRounding};
  }
};

/// First difference from the scalar functions, or from the mask of the loop without codes.
template <class Code>
std::string wrong(const Trial& t, std::vector<float> x, bool values, bool in_place) {
  const QuantizeChunk<float> r = t.chunk();
  std::vector<uint64_t> mask(64), expected_mask(64);
  std::vector<float> y(x.size());
  quantize_loops<float>(t.version())
      .quantize(x.data(), y.data(), expected_mask.data(), count, &r);
  std::vector<Code> codes(x.size());
  uint32_t nan = 0;
  const std::vector<float> before = x;
  float* to = !values ? nullptr : in_place ? x.data() : y.data();
  quantize_codes_loop(t.version(), dtype_of<Code>, values)(
      x.data(), to, reinterpret_cast<std::byte*>(codes.data()), values ? mask.data() : nullptr,
      count, &r, &nan);
  test::FirstDifference found;
  found.compare(nan, 0u, "nan");
  if (values) found.compare(mask == expected_mask, true, "equal masks");
  for (int64_t i = 0; i < count; ++i) {
    const size_t c = t.channel(i);
    const auto k = static_cast<size_t>(i);
    const QParams<float> q{t.scale[c], t.zero_point[c]};
    const float code = code_of(before[k], q, t.grid);
    found.compare(static_cast<float>(codes[k]), code + 0.0f, "code");
    if (values) found.compare(to[k] + 0.0f, value_of(code, q) + 0.0f, "value");
  }
  return found.text();
}

/// First difference of the loop for short runs from the scalar functions, for the first
/// channel.
std::string wrong_values(const Trial& t, const std::vector<float>& x, int64_t n) {
  const QuantizeChunk<float> r = t.chunk();
  std::vector<float> y(static_cast<size_t>(n) + 1, -123);
  requantize_values_loop(t.version())(x.data(), y.data(), n, &r);
  const QParams<float> q{t.scale[0], t.zero_point[0]};
  test::FirstDifference found;
  for (size_t i = 0; i < static_cast<size_t>(n); ++i) {
    found.compare(y[i] + 0.0f, value_of(code_of(x[i], q, t.grid), q) + 0.0f, "value");
  }
  found.compare(y.back(), -123.0f, "the element after the last");
  return found.text();
}

}  // namespace

TEST_CASE("code kernels: codes, values and masks are those of the scalar functions") {
  const CodeLimits all_limits[] = {{-127, 127}, {0, 255}, {-8, 7}, {-32768, 32767}, {0, 65535}};
  uint64_t seed = 0;
  for (CodeLimits limits : all_limits) {
    for (Rounding rounding : {Rounding::HalfEven, Rounding::HalfAway, Rounding::HalfUp}) {
      for (Division division : {Division::Exact, Division::Reciprocal}) {
        for (ZeroPoint order : {ZeroPoint::AfterRounding, ZeroPoint::BeforeRounding}) {
          for (float scale : {0.0371f, 0x1p-7f, 1e-36f, 1e33f}) {
            for (bool columns : {false, true}) {
              const Grid grid{.limits = limits,
                              .scheme = Scheme::Affine,
                              .rounding = rounding,
                              .division = division,
                              .zero_point = order};
              const float zero = ++seed % 2 == 0 ? 0.0f : static_cast<float>(limits.q_min + 3);
              const Trial trial(grid, columns, scale, zero);
              const auto x = data_around({scale, zero}, limits, seed);
              INFO(to_string_view(rounding), " ", to_string_view(division), " ",
                   to_string_view(order), ", codes from ", limits.q_min, ", scale ", scale,
                   ", columns ", columns);
              dispatch_codes(code_dtype(limits), [&]<class Code>() {
                CHECK(wrong<Code>(trial, x, false, false) == "");
                CHECK(wrong<Code>(trial, x, true, false) == "");
                CHECK(wrong<Code>(trial, x, true, true) == "");
              });
              for (const int64_t n : {1, 7, 33, 496}) CHECK(wrong_values(trial, x, n) == "");
            }
          }
        }
      }
    }
  }
}

TEST_CASE("code kernels: a NaN is told, wherever it is, and has the lowest code") {
  const Trial trial({.limits = {-127, 127}}, false, 0.5f, 0);
  for (bool values : {false, true}) {
    for (size_t at : {size_t{0}, size_t{511}, size_t{512}, size_t{1487}}) {
      std::vector<float> x(count, 0.25f), y(count);
      std::vector<int8_t> codes(count);
      x[at] = std::numeric_limits<float>::quiet_NaN();
      uint32_t nan = 0;
      const QuantizeChunk<float> r = trial.chunk();
      quantize_codes_loop(trial.version(), DType::S8, values)(
          x.data(), values ? y.data() : nullptr, reinterpret_cast<std::byte*>(codes.data()),
          nullptr, count, &r, &nan);
      CHECK(nan == 1);
      CHECK(codes[at] == -127);
      CHECK(codes[at == 0 ? 1 : 0] == 0);
    }
  }
}

TEST_CASE("code kernels: codes become values by one difference and one product") {
  for (DType dtype : {DType::U8, DType::S8, DType::U16, DType::S16}) {
    dispatch_codes(dtype, [&]<class Code>() {
      std::vector<Code> codes;
      for (int i = 0; i < 300; ++i) codes.push_back(static_cast<Code>(i * 211));
      std::vector<float> y(codes.size());
      decode_loop(dtype)(reinterpret_cast<const std::byte*>(codes.data()), y.data(),
                         std::ssize(y), 0.0371f, 5);
      for (size_t i = 0; i < codes.size(); ++i) {
        CHECK(y[i] == value_of(static_cast<float>(codes[i]), QParams<float>{0.0371f, 5.0f}));
      }
    });
  }
}
