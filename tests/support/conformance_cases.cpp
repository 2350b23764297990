#include <array>
#include <cctype>
#include <cmath>
#include <limits>

#include "qtape/core/code_types.h"
#include "qtape/integer/program/integer_node.h"
#include "qtape/integer/rules/rule_table.h"
#include "qtape/tests/support/conformance_builder.h"
#include "qtape/tests/support/op_case.h"

namespace qtape::test {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

std::string named(const char* name, Requantization requantization) {
  return std::string(name) + "-" + std::string(to_string_view(requantization));
}

std::vector<float> uniform(Draws& draws, int64_t count, double low, double high) {
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(draws.uniform(low, high));
  return values;
}

std::vector<int8_t> random_weights(Draws& draws, int64_t count, int64_t least, int64_t most) {
  std::vector<int8_t> weights;
  for (int64_t i = 0; i < count; ++i) {
    weights.push_back(static_cast<int8_t>(draws.integer(least, most)));
  }
  // Ensures that both ends occur.
  weights[0] = static_cast<int8_t>(least);
  weights[1] = static_cast<int8_t>(most);
  return weights;
}

/// Midpoints of steps and their neighbours, zeros, infinities, and the ends of f32.
std::vector<float> quantize_inputs(float scale, int32_t steps) {
  const float most = std::numeric_limits<float>::max();
  const float least = std::numeric_limits<float>::denorm_min();
  std::vector<float> x = {
      0.0f,  -0.0f, static_cast<float>(infinity), static_cast<float>(-infinity), most, -most,
      least, -least};
  for (int32_t step = -steps; step <= steps; ++step) {
    const float half = (static_cast<float>(step) + 0.5f) * scale;
    x.push_back(half);
    x.push_back(std::nextafter(half, most));
    x.push_back(std::nextafter(half, -most));
  }
  return x;
}

void add_quantizers(ConformanceBuilder& b, ProgramNodeId x, const CodeGrid& grid) {
  for (Rounding rounding : {Rounding::HalfEven, Rounding::HalfAway, Rounding::HalfUp}) {
    for (Division division : {Division::Exact, Division::Reciprocal}) {
      for (ZeroPoint zero_point : {ZeroPoint::AfterRounding, ZeroPoint::BeforeRounding}) {
        b.add(integer::Quantize{grid, rounding, division, zero_point}, {x});
      }
    }
  }
}

ConformanceCase quantize_rounding() {
  ConformanceBuilder b("quantize-rounding",
                       "Quantize in all roundings, divisions and orders, at ties and beside",
                       Requantization::FloatMultiply);
  const std::vector<float> exact = quantize_inputs(0.5f, 9);
  const std::vector<float> inexact = quantize_inputs(0.1f, 9);
  const auto n = std::ssize(exact);
  const ProgramNodeId x = b.input("halves", {1, n}, exact);
  add_quantizers(b, x, whole_grid(DType::S8, 0.5, 3));
  add_quantizers(b, b.input("tenths", {1, n}, inexact), whole_grid(DType::U8, double{0.1f}, 9));
  // The sum with a large zero point is rounded in f32.
  add_quantizers(b, x, whole_grid(DType::U16, double{0.3f}, 40001));
  return b.done();
}

ConformanceCase quantize_grids() {
  ConformanceBuilder b("quantize-grids",
                       "Quantize to grids of all dtypes, clamped ones and extreme scales",
                       Requantization::FloatMultiply);
  Draws draws(2);
  std::vector<float> data = quantize_inputs(1.0f, 3);
  while (data.size() < 96) {
    const int exponent = static_cast<int>(draws.integer(-8, 18));
    data.push_back(std::ldexp(draws.uniform(-1, 1), exponent));
  }
  const ProgramNodeId x = b.input("x", {4, 24}, data);
  for (DType dtype : {DType::S8, DType::U8, DType::S16, DType::U16}) {
    for (double scale : {1.0, double{0.037f}, double{5.7f}}) {
      b.add(integer::Quantize{whole_grid(dtype, scale, 77)}, {x});
    }
  }
  b.add(integer::Quantize{{DType::S8, 0.25, -3, -20, 90}}, {x});
  b.add(integer::Quantize{{DType::U8, 0.25, 200, 10, 50}}, {x});
  b.add(integer::Quantize{{DType::S16, 0.25, 5, 5, 5}}, {x});
  for (Division division : {Division::Exact, Division::Reciprocal}) {
    for (double scale : {0x1p-126, 0x1.fffffep110}) {
      b.add(integer::Quantize{.grid = whole_grid(DType::S8, scale, 1), .division = division},
            {x});
    }
  }
  return b.done();
}

ConformanceCase structure() {
  ConformanceBuilder b("structure", "Concat, Slice, Reshape and Max of codes of all dtypes",
                       Requantization::FloatMultiply);
  Draws draws(3);
  for (DType dtype : {DType::S8, DType::U8, DType::S16, DType::U16}) {
    const CodeGrid grid = whole_grid(dtype, 0.5, 17);
    const ProgramNodeId x =
        b.random_codes(draws, std::string(to_string_view(dtype)), {2, 3, 4}, grid);
    const ProgramNodeId part = b.add(integer::Slice{{.axis = 1, .begin = -2}}, {x});
    b.add(integer::Slice{{.axis = -1, .begin = 1, .end = -1}}, {x});
    b.add(integer::Slice{{.axis = 2, .begin = 2, .end = 2}}, {x});
    b.add(integer::Concat{{.axis = 1, .count = 3}}, {x, part, x});
    b.add(integer::Concat{{.axis = -3, .count = 2}}, {x, x});
    b.add(integer::Reshape{{.shape = {-1, 6}}}, {x});
    b.add(integer::Reshape{{.shape = {24}}}, {x});
    b.add(integer::Max{}, {x});
    b.add(integer::Max{.axes = {-1}}, {x});
    b.add(integer::Max{.axes = {0, 2}, .keep_dims = true}, {x});
  }
  return b.done();
}

/// Returns scales that map accumulators of `span` steps to approximately a few hundred steps of
/// 1.
std::vector<float> spread_scales(Draws& draws, int64_t n, double span) {
  std::vector<float> scales;
  for (int64_t c = 0; c < n; ++c) {
    const int exponent = static_cast<int>(c % 8) - 4;
    scales.push_back(static_cast<float>(std::ldexp(draws.uniform(100, 200) / span, exponent)));
  }
  return scales;
}

std::vector<int32_t> random_biases(Draws& draws, int64_t n, int64_t most) {
  std::vector<int32_t> biases;
  for (int64_t c = 0; c < n; ++c) {
    biases.push_back(static_cast<int32_t>(draws.integer(-most, most)));
  }
  return biases;
}

/// Returns weights [n, k] with biases of up to `bias` times the largest weight.
Weights weights(Draws& draws, int64_t n, int64_t k, int bits, int64_t bias, double span) {
  const int64_t most = (int64_t{1} << (bits - 1)) - 1;
  Weights w{.codes = random_weights(draws, n * k, -most, most), .bits = bits};
  w.bias = random_biases(draws, n, bias * most);
  w.scales = spread_scales(draws, n, span * static_cast<double>(most));
  return w;
}

/// Three layers of 8, 4 and 2 bits on codes of `dtypes`, where k is not a multiple of the
/// weights per byte.
ConformanceCase accumulators(const char* name, const char* about, Requantization requantization,
                             std::array<DType, 3> dtypes) {
  ConformanceBuilder b(named(name, requantization), about, requantization);
  Draws draws(4);
  const int64_t rows = 6, k = 7, n = 9;
  const ProgramNodeId x = b.input("x", {2, rows / 2, k}, uniform(draws, rows * k, -4, 4), true);
  for (size_t layer = 0; layer < 3; ++layer) {
    const bool wide = size_of(dtypes[layer]) > 1;
    const int32_t zero_point = layer == 1 ? 0 : wide ? 30000 : 101;
    const double scale = double{wide ? 0.00013f : 0.033f};
    const ProgramNodeId codes =
        b.add(integer::Quantize{.grid = whole_grid(dtypes[layer], scale, zero_point)}, {x});
    const int bits = 8 >> layer;
    const int64_t most = (int64_t{1} << (bits - 1)) - 1;
    const auto weights = random_weights(draws, n * k, -most - 1, most);
    const double span = static_cast<double>(most + 1) * (wide ? 60000 : 240) * scale;
    const auto scales = spread_scales(draws, layer == 1 ? 1 : n, span);
    const auto bias = random_biases(draws, layer == 1 ? 0 : n, wide ? 3'000'000 : 9000);
    const ProgramNodeId y = b.linear(codes, {weights, scales, bias, bits});
    b.requantize(y, {whole_grid(DType::U8, 1, 100), CodeGrid{DType::S8, 1, -7, -20, 90},
                     whole_grid(DType::S16, double{0.011f}, -300),
                     whole_grid(DType::U16, double{0.009f}, 25000)});
    if (layer == 0) b.add(integer::Dequantize{}, {y});
    b.add(integer::Dequantize{.low = -0.3, .high = 99.9}, {y});
  }
  return b.done();
}

/// Accumulators that are consecutive integers around 0 and around multiples of a step, with
/// ratios that have ties.
ConformanceCase ties(Requantization requantization) {
  ConformanceBuilder b(named("ties", requantization),
                       "Accumulators halfway between codes, and beside, from 8 and 16 bits",
                       requantization);
  Weights w{{}, {}};
  for (int exponent = 0; exponent <= 7; ++exponent) {
    for (float fraction : {1.0f, 0.75f}) {
      w.codes.push_back(exponent % 2 == 0 ? 1 : -1);
      w.scales.push_back(std::ldexp(fraction, -exponent));
      w.bias.push_back(exponent % 3 == 0 ? -10 : exponent % 3 == 1 ? 9 : -(64 << exponent) - 8);
    }
  }
  std::vector<int64_t> steps;
  for (int64_t i = 0; i < 18; ++i) steps.push_back(i);
  for (DType dtype : {DType::U8, DType::S16}) {
    const std::string label = std::string(to_string_view(dtype));
    const ProgramNodeId x = b.codes(label, {18, 1}, whole_grid(dtype, 1, 0), steps);
    b.requantize(b.linear(x, w), {whole_grid(DType::S16, 1, 0)});
  }
  // Ties except for the rounding of scales, which requantizations apply at different places.
  const ProgramNodeId x =
      b.codes("thirds", {18, 1}, whole_grid(DType::U8, double{0.33f}, 0), steps);
  const ProgramNodeId y =
      b.linear(x, {{1, -1, 3, 5, -7, 9, 11, 127}, {1, 1, 1, 0.5f, 0.7f, 0.1f, 0.3f, 0.9f}});
  b.requantize(y, {whole_grid(DType::S16, double{0.22f}, 0)});
  return b.done();
}

/// Ratios from far below 2^-32 to far above 2^30, and accumulators up to the ends of s32 and
/// beyond.
ConformanceCase extremes(Requantization requantization) {
  ConformanceBuilder b(named("extremes", requantization),
                       "Ratios and accumulators at and beyond the ends of their ranges",
                       requantization);
  const std::vector<int> exponents = {-60, -38, -33, -32, -31, -24, -16, -7,
                                      -1,  0,   1,   7,   15,  16,  29,  40};
  constexpr int32_t most = std::numeric_limits<int32_t>::max();
  for (DType dtype : {DType::U8, DType::U16}) {
    for (int32_t end : {0, most}) {
      Weights w{{}, {}};
      for (size_t c = 0; c < exponents.size(); ++c) {
        w.codes.push_back(c % 2 == 0 ? 127 : -128);
        w.scales.push_back(std::ldexp(c % 3 == 0 ? 0x1.fffffep-1f : 0.6f, exponents[c]));
        w.bias.push_back(end == 0 ? static_cast<int32_t>(c) - 8 : c % 2 == 0 ? most : -most);
      }
      const std::string label =
          std::string(to_string_view(dtype)) + (end == 0 ? "" : " and large biases");
      const ProgramNodeId x = b.codes(label, {5, 1}, whole_grid(dtype, 1, 0),
                                      {0, 1, 2, 100, dtype == DType::U8 ? 255 : 65535});
      b.requantize(b.linear(x, w),
                   {whole_grid(DType::S16, 1, 0), whole_grid(DType::U16, 1, 65535)});
    }
  }
  return b.done();
}

ConformanceCase codes_to_codes(Requantization requantization) {
  ConformanceBuilder b(named("codes", requantization), "Requantize from codes to codes",
                       requantization);
  std::vector<int64_t> all;
  for (int64_t code = 0; code < 256; code += 2) all.push_back(code);
  const ProgramNodeId x =
      b.codes("u8", {1, 128}, whole_grid(DType::U8, double{0.33f}, 111), all);
  b.requantize(
      x,
      {whole_grid(DType::U8, double{0.66f}, 111), whole_grid(DType::S8, double{0.77f}, 5),
       whole_grid(DType::U8, double{0.11f}, 0), CodeGrid{DType::U8, double{0.33f}, 9, 9, 255},
       whole_grid(DType::S16, double{0.22f}, -100)});
  Draws draws(5);
  const ProgramNodeId z =
      b.random_codes(draws, "s16", {1, 64}, whole_grid(DType::S16, 0x1p-12, 0),
                     {-32768, 32767, 0, 1, -1, 2, -2, 3, -3, 5, -5});
  b.requantize(z, {whole_grid(DType::S16, 0x1p-11, 0), whole_grid(DType::S8, 0.0625, 0),
                   whole_grid(DType::U16, double{0.00021f}, 32768),
                   whole_grid(DType::U8, double{0.031f}, 128)});
  return b.done();
}

integer::Constant constant_of(Draws& draws, const Shape& shape, const CodeGrid& grid) {
  return dispatch_codes(grid.dtype, [&]<class Code>() {
    std::vector<Code> codes;
    for (int64_t i = 0; i < shape.elements(); ++i) {
      codes.push_back(static_cast<Code>(draws.integer(grid.low, grid.high)));
    }
    return integer::Constant{grid, Tensor::of<Code>(shape, std::span<const Code>(codes))};
  });
}

ConformanceCase additions(Requantization requantization) {
  ConformanceBuilder b(named("add", requantization),
                       "Add, Sub and Mul of codes of 8 and 16 bits", requantization);
  const auto codes = [&](const char* label, const CodeGrid& grid, uint64_t seed) {
    Draws draws(seed);
    return b.random_codes(draws, label, {3, 16}, grid,
                          {grid.low, grid.high, grid.low, grid.high, grid.zero_point});
  };
  const ProgramNodeId u8 = codes("u8", whole_grid(DType::U8, double{0.021f}, 120), 1);
  const ProgramNodeId s8 = codes("s8", whole_grid(DType::S8, double{0.035f}, -5), 2);
  const ProgramNodeId even = codes("even", whole_grid(DType::S8, 0.25, 0), 3);
  const ProgramNodeId fine = codes("fine", whole_grid(DType::U8, 0x1p-12, 7), 4);
  const ProgramNodeId s16 = codes("s16", whole_grid(DType::S16, double{0.00012f}, 0), 5);
  const ProgramNodeId u16 = codes("u16", whole_grid(DType::U16, double{0.00007f}, 40000), 6);
  const auto add = [&](ProgramNodeId x, ProgramNodeId y, const CodeGrid& grid) {
    b.add(integer::Add{grid}, {x, y});
    b.add(integer::Sub{grid}, {x, y});
    b.add(integer::Mul{grid}, {x, y});
  };
  add(u8, s8, whole_grid(DType::S8, double{0.05f}, 3));
  add(u8, s8, {DType::U8, double{0.04f}, 90, 90, 200});
  add(s8, u8, whole_grid(DType::S16, double{0.014f}, 0));
  add(even, even, whole_grid(DType::S8, 0.5, 0));
  add(even, even, whole_grid(DType::S8, 1, 1));
  add(even, fine, whole_grid(DType::U8, 0.25, 128));
  add(fine, even, whole_grid(DType::S8, 0x1p40, 0));
  add(s16, u16, whole_grid(DType::S16, double{0.00019f}, 0));
  add(s16, s16, whole_grid(DType::S16, double{0.00024f}, 0));
  add(s16, u8, whole_grid(DType::U16, double{0.00015f}, 30000));
  add(u8, u16, whole_grid(DType::S8, double{0.061f}, 2));
  const auto multiply = [&](ProgramNodeId x, ProgramNodeId y, const CodeGrid& grid) {
    b.add(integer::Mul{grid}, {x, y});
  };
  multiply(u8, s8, whole_grid(DType::S8, double{0.11f}, -7));
  multiply(even, even, whole_grid(DType::S8, 2, 0));
  multiply(s16, u16, whole_grid(DType::S16, double{0.0002f}, 0));
  multiply(s16, s16, whole_grid(DType::U8, 0x1p-8, 128));
  return b.done();
}

/// Rules that depend on the bits of codes, where operands and accumulators of 8 and 16 bits
/// meet, are moved, averaged or interpolated.
ConformanceCase mixed(Requantization requantization) {
  ConformanceBuilder b(named("mixed", requantization),
                       "Codes of 8 and 16 bits together, and their accumulators after moves",
                       requantization);
  Draws draws(14);
  const auto codes = [&](const std::string& label, const Shape& shape, const CodeGrid& grid) {
    return b.random_codes(draws, label, shape, grid, {grid.low, grid.high});
  };
  const CodeGrid fine = whole_grid(DType::S16, double{0.00019f}, 11);
  const ProgramNodeId s8 = codes("s8", {2, 32}, whole_grid(DType::S8, double{0.035f}, -5));
  const ProgramNodeId u8 = codes("u8", {2, 32}, whole_grid(DType::U8, double{0.021f}, 120));
  const ProgramNodeId s16 = codes("s16", {2, 32}, whole_grid(DType::S16, double{0.00012f}, 0));
  for (const auto& [x, y] : {std::pair(s8, s16), {s16, u8}, {s8, u8}}) {
    b.add(integer::Add{fine}, {x, y});
    b.add(integer::Sub{fine}, {x, y});
    b.add(integer::Mul{fine}, {x, y});
  }
  const ProgramNodeId image =
      codes("image", {2, 4, 5, 3}, whole_grid(DType::S16, double{0.00012f}, -300));
  const auto requantize = [&](ProgramNodeId sums) { b.requantize(sums, {fine}); };
  requantize(b.add(
      integer::Interpolate{
          {.extents = {6, 7}, .step = {3, 4}, .offset = {-1, 1}, .divisor = {5, 6}}},
      {image}));
  requantize(b.add(integer::AvgPool{{.kernel = {2, 3}, .stride = {1, 1}}}, {image}));
  // Means of 5, not of a power of two.
  const ProgramNodeId mean = b.add(integer::Sum{.axes = {2}, .mean = true}, {image});
  requantize(mean);
  requantize(b.add(integer::Reshape{{.shape = {-1, 3}}}, {mean}));
  requantize(b.add(integer::Transpose{{.permutation = {0, 2, 1}}}, {mean}));
  // A range of 8 bits does not change the kind of accumulators.
  const ProgramNodeId few =
      codes("few", {54, 7}, CodeGrid{DType::S16, double{0.0021f}, 3, -90, 100});
  const ProgramNodeId sums = b.linear(few, weights(draws, 1, 7, 8, 0, 6));
  requantize(sums);
  requantize(b.add(integer::Reshape{{.shape = {9, 6}}}, {sums}));
  requantize(b.add(integer::Transpose{{.permutation = {1, 0}}}, {sums}));
  // Sums of terms whose steps are those of the shift to the left.
  const ProgramNodeId coarse = codes("coarse", {40}, {DType::S8, double{0.035f}, 0, -1, 1});
  const ProgramNodeId near = codes("near", {40}, whole_grid(DType::S16, double{0.0000012f}, 0));
  const CodeGrid steps = whole_grid(DType::S16, double{0.0000023f}, 0);
  b.add(integer::Add{steps}, {coarse, near});
  b.add(integer::Sub{steps}, {near, coarse});
  return b.done();
}

/// Pairs of codes of one or two dtypes whose shapes broadcast, and constants.
ConformanceCase broadcasts(Requantization requantization) {
  ConformanceBuilder b(named("broadcast", requantization),
                       "Add, Sub, Mul, Maximum and Minimum of operands that are repeated, and "
                       "constants",
                       requantization);
  Draws draws(11);
  const CodeGrid bytes = whole_grid(DType::U8, double{0.021f}, 120);
  const CodeGrid wide = whole_grid(DType::S16, double{0.00012f}, -7);
  for (const CodeGrid& grid : {bytes, wide}) {
    const std::string label(to_string_view(grid.dtype));
    const auto codes = [&](const char* name, const Shape& shape) {
      return b.random_codes(draws, name + label, shape, grid);
    };
    const ProgramNodeId image = codes("image", {2, 3, 2, 5});
    const ProgramNodeId constant = b.add(constant_of(draws, {3, 1, 5}, grid), {});
    for (const ProgramNodeId other : {codes("channels", {2, 1, 1, 5}), constant,
                                      codes("positions", {2, 3, 2, 1}), codes("one", {})}) {
      const CodeGrid to = whole_grid(DType::S8, double{0.05f}, 3);
      b.add(integer::Add{to}, {image, other});
      b.add(integer::Sub{to}, {other, image});
      b.add(integer::Mul{to}, {image, other});
      b.add(integer::Maximum{}, {image, other});
      b.add(integer::Minimum{}, {other, image});
    }
    b.add(integer::Mul{grid}, {codes("column", {4, 1}), codes("row", {3})});
    b.add(integer::Concat{{.axis = 0, .count = 2}}, {constant, codes("beside", {1, 1, 5})});
  }
  const ProgramNodeId x = b.random_codes(draws, "low", {6}, {DType::S8, 0.25, 3, -100, 20});
  const ProgramNodeId z = b.random_codes(draws, "high", {6}, {DType::S8, 0.25, 3, -10, 90});
  b.add(integer::Maximum{}, {x, z});
  b.add(integer::Minimum{}, {x, z});
  return b.done();
}

/// Products of two matrices of codes, stored either way, with one matrix b or one for each a.
ConformanceCase matrices(Requantization requantization) {
  ConformanceBuilder b(named("matrices", requantization),
                       "MatMul of codes of one or two dtypes, and its sums as codes",
                       requantization);
  Draws draws(14);
  const CodeGrid bytes = whole_grid(DType::U8, double{0.021f}, 120);
  const CodeGrid narrow{DType::S8, double{0.0137f}, -9, -100, 90};
  const CodeGrid wide = whole_grid(DType::S16, double{0.00012f}, -7);
  const auto codes = [&](const std::string& label, const Shape& shape, const CodeGrid& grid) {
    return b.random_codes(draws, label, shape, grid, {grid.low, grid.high});
  };
  for (const auto& grids :
       {std::pair(bytes, narrow), std::pair(wide, bytes), std::pair(wide, wide)}) {
    const CodeGrid& left = grids.first;
    const CodeGrid& right = grids.second;
    const auto named = [&](const char* label) {
      return fmt::format("{} of {} and {}", label, to_string_view(left.dtype),
                         to_string_view(right.dtype));
    };
    const ProgramNodeId a = codes(named("a"), {2, 2, 3}, left);
    const ProgramNodeId sums[] = {
        b.add(integer::MatMul{}, {a, codes(named("b"), {2, 3, 4}, right)}),
        b.add(integer::MatMul{.transpose_b = true},
              {a, codes(named("rows"), {2, 2, 3}, right)}),
        b.add(integer::MatMul{.transpose_a = true},
              {a, codes(named("columns"), {2, 2, 2}, right)}),
        b.add(integer::MatMul{}, {a, codes(named("shared"), {3, 2}, right)})};
    for (const ProgramNodeId y : sums) {
      const double reach = static_cast<double>(b.value(y).high - b.value(y).low);
      const auto scale = static_cast<float>(b.value(y).scales[0] * reach / 400);
      b.requantize(y, {whole_grid(DType::S8, double{scale}, 3)});
    }
  }
  return b.done();
}

/// Tables of 256 and 65536 entries with arbitrary contents, also one for each channel.
ConformanceCase lookups() {
  ConformanceBuilder b("lookup", "Lookup of codes of 8 and 16 bits, also by channel",
                       Requantization::FloatMultiply);
  Draws draws(8);
  const auto codes = [&](const char* label, const CodeGrid& grid) {
    return b.random_codes(draws, label, {4, 10}, grid, {grid.low, grid.high, grid.zero_point});
  };
  const auto look_up = [&](ProgramNodeId x, DType dtype, const Shape& entries,
                           const CodeGrid& grid) {
    dispatch_codes(dtype, [&]<class Code>() {
      std::vector<Code> table;
      for (int64_t i = 0; i < entries.elements(); ++i) {
        table.push_back(static_cast<Code>(draws.integer(grid.low, grid.high)));
      }
      b.add(integer::Lookup{grid, Tensor::of<Code>(entries, std::span<const Code>(table))},
            {x});
    });
  };
  const ProgramNodeId u8 = codes("u8", whole_grid(DType::U8, double{0.02f}, 100));
  const ProgramNodeId s8 = codes("s8", whole_grid(DType::S8, 0.5, 0));
  const ProgramNodeId s16 = codes("s16", whole_grid(DType::S16, 0x1p-12, 0));
  look_up(u8, DType::U8, {256}, whole_grid(DType::U8, 0.25, 3));
  look_up(s8, DType::S8, {256}, {DType::S8, 1, 0, -7, 7});
  look_up(s8, DType::S16, {256}, whole_grid(DType::S16, 0x1p-14, 0));
  look_up(s16, DType::U8, {65536}, whole_grid(DType::U8, 0.125, 0));
  look_up(u8, DType::S8, {10, 256}, whole_grid(DType::S8, 0.25, 3));
  look_up(s8, DType::U16, {10, 256}, whole_grid(DType::U16, 0x1p-14, 7));
  return b.done();
}

ConformanceCase totals(Requantization requantization) {
  ConformanceBuilder b(named("sum", requantization), "Sum of codes over axes, and as a mean",
                       requantization);
  Draws draws(6);
  const auto sum = [&](ProgramNodeId x, std::vector<int> axes, bool keep_dims, bool mean) {
    return b.add(integer::Sum{std::move(axes), keep_dims, mean}, {x});
  };
  const ProgramNodeId u8 =
      b.random_codes(draws, "u8", {4, 3, 5}, whole_grid(DType::U8, double{0.02f}, 100));
  const ProgramNodeId s16 =
      b.random_codes(draws, "s16", {4, 6}, whole_grid(DType::S16, 0x1p-12, 0));
  for (ProgramNodeId x :
       {sum(u8, {1}, false, false), sum(u8, {-1}, true, true), sum(u8, {}, false, true),
        sum(u8, {0, 2}, false, true), sum(s16, {1}, false, false), sum(s16, {1}, false, true),
        sum(s16, {}, true, false)}) {
    b.requantize(
        x, {whole_grid(DType::S8, double{0.021f}, 3), whole_grid(DType::S16, 0x1p-10, 0)});
    b.add(integer::Dequantize{}, {x});
  }
  // Accumulators beyond s32.
  const ProgramNodeId u16 =
      b.random_codes(draws, "u16", {1, 65}, whole_grid(DType::U16, 0x1p-6, 0));
  const auto joined = [&](ProgramNodeId part, int count) {
    return b.add_inner(integer::Concat{{.axis = 1, .count = count}},
                       std::vector(static_cast<size_t>(count), part));
  };
  const ProgramNodeId many = joined(joined(u16, 8), 64);
  b.omit(many);
  for (bool mean : {false, true}) {
    const ProgramNodeId x = sum(many, {1}, false, mean);
    b.requantize(x, {whole_grid(DType::U16, 0x1p12, 0), whole_grid(DType::S16, 0x1.8p-5, 0)});
  }
  // 5/6 of sums, odd multiples of 3 of which are ties.
  const ProgramNodeId sixes =
      b.random_codes(draws, "sixes", {60, 6}, whole_grid(DType::S8, 0x1.4p-3, 0));
  b.requantize(sum(sixes, {1}, false, true), {whole_grid(DType::S16, 0x1p-5, 0)});
  return b.done();
}

ConformanceCase convolutions() {
  ConformanceBuilder b(
      "convolutions",
      "Conv with strides, dilations, groups and padding, over codes of all dtypes",
      Requantization::SingleRounding);
  Draws draws(9);
  const auto add = [&](ProgramNodeId x, const integer::Conv& op, int64_t n, int64_t k,
                       int bits) {
    return b.conv(x, op, k, weights(draws, n, k, bits, 50, 8'000));
  };
  using C = integer::Conv;
  const C same{.taps = {3, 3}, .padding = Padding::Same};
  const C uneven{.taps = {2, 3},
                 .stride = {2, 1},
                 .dilation = {1, 2},
                 .padding = Padding::Explicit,
                 .pads_begin = {1, 0},
                 .pads_end = {0, 3}};
  const ProgramNodeId u8 =
      b.random_codes(draws, "u8", {2, 4, 5, 2}, whole_grid(DType::U8, 0.5, 77));
  // The zero point is outside the range of codes.
  const ProgramNodeId s8 =
      b.random_codes(draws, "s8", {1, 5, 4, 4}, {DType::S8, 0.25, -100, 10, 120});
  const ProgramNodeId s16 =
      b.random_codes(draws, "s16", {1, 4, 4, 2}, whole_grid(DType::S16, 0x1p-8, 300));
  const ProgramNodeId u16 =
      b.random_codes(draws, "u16", {2, 9, 3}, whole_grid(DType::U16, 0x1p-8, 40000));
  const CodeGrid hidden = whole_grid(DType::S8, double{0.4f}, -7);
  C depthwise = uneven, grouped = same;
  depthwise.groups = 4;
  grouped.groups = 2;
  for (ProgramNodeId y :
       {add(u8, same, 3, 18, 8), add(u8, C{}, 3, 2, 4), add(u8, uneven, 2, 12, 2),
        add(s8, same, 2, 36, 4), add(s8, depthwise, 4, 6, 8), add(s8, grouped, 6, 18, 8),
        add(s16, same, 2, 18, 8), add(s16, grouped, 2, 9, 8)}) {
    b.requantize(y, {hidden});
  }
  for (const C& op : {C{.taps = {4},
                     .stride = {2},
                     .dilation = {1},
                     .padding = Padding::Same,
                     .pads_begin = {0},
                     .pads_end = {0}},
                      C{.taps = {2},
                      .stride = {1},
                      .dilation = {3},
                      .padding = Padding::Explicit,
                      .pads_begin = {4},
                      .pads_end = {1},
                      .groups = 3}}) {
    const int64_t channels = 3 / op.groups;
    b.requantize(add(u16, op, 3, op.taps[0] * channels, 8), {hidden});
  }
  return b.done();
}

/// Two layers with a residual sum, a Slice and a Concat.
ConformanceCase network(Requantization requantization) {
  ConformanceBuilder b(named("network", requantization), "A network of all ops",
                       requantization);
  Draws draws(7);
  const ProgramNodeId input = b.input("x", {8, 10}, uniform(draws, 8 * 10, -1, 3), true);
  const ProgramNodeId x =
      b.add(integer::Quantize{.grid = whole_grid(DType::U8, double{4.0f / 255}, 64)}, {input});
  const CodeGrid hidden = {DType::S8, double{0.043f}, -30, -30, 127};
  const auto layer = [&](ProgramNodeId from, int64_t k, int64_t n, const CodeGrid& grid,
                         int bits) {
    const ProgramNodeId y = b.linear(from, weights(draws, n, k, bits, 40, 12'000));
    return b.add(integer::Requantize{grid}, {y});
  };
  const ProgramNodeId one = layer(x, 10, 10, hidden, 4);
  const ProgramNodeId both =
      b.add(integer::Add{{DType::U8, double{0.05f}, 20, 20, 255}}, {x, one});
  const ProgramNodeId half = b.add(integer::Slice{{.axis = 1, .begin = 0, .end = 5}}, {one});
  const ProgramNodeId two = layer(both, 10, 6, hidden, 8);
  const ProgramNodeId joined = b.add(integer::Concat{{.axis = 1, .count = 2}}, {half, two});
  const ProgramNodeId folded = b.add(integer::Reshape{{.shape = {-1, 11, 1}}}, {joined});
  const ProgramNodeId top = b.add(integer::Max{.axes = {1}}, {folded});
  b.add(integer::Dequantize{.low = 0}, {top});
  const ProgramNodeId mean = b.add(integer::Sum{.axes = {1}, .mean = true}, {joined});
  b.add(integer::Dequantize{}, {b.add(integer::Requantize{hidden}, {mean})});
  b.add(integer::Dequantize{}, {layer(joined, 11, 4, whole_grid(DType::S16, 0x1p-11, 0), 2)});
  return b.done();
}

/// Norms of rows and of groups, centered or not, with all parts of their numbers.
ConformanceCase norms(Requantization requantization) {
  ConformanceBuilder b(named("normalize", requantization),
                       "Normalize over rows and over positions of groups", requantization);
  Draws draws(10);
  const auto add = [&](ProgramNodeId x, integer::Normalize op) {
    const int64_t c = b.value(x).type.shape[-1];
    const auto n = static_cast<size_t>(c);
    std::vector<int32_t> signs(n), bias(n);
    std::vector<float> scales(n);
    for (size_t k = 0; k < n; ++k) {
      signs[k] = static_cast<int32_t>(draws.integer(-1, 1));
      scales[k] = draws.uniform(0.1, 2);
      bias[k] = static_cast<int32_t>(draws.integer(-100000, 100000));
    }
    op.signs = Tensor::of<int32_t>({c}, signs);
    op.scales = Tensor::of<float>({c}, scales);
    op.bias = Tensor::of<int32_t>({c}, bias);
    op.least = std::max(op.least, int64_t{1} << (2 * op.shift));
    b.requantize(b.add(op, {x}), {whole_grid(DType::S8, double{0.03f}, 5)});
  };
  const ProgramNodeId u8 =
      b.random_codes(draws, "u8", {2, 3, 6}, whole_grid(DType::U8, double{0.02f}, 100),
                     {7, 7, 7, 7, 7, 7, 100, 100, 100, 100, 100, 100, 0, 255});
  const ProgramNodeId s16 =
      b.random_codes(draws, "s16", {2, 2, 2, 4}, whole_grid(DType::S16, 0x1p-12, 30000));
  add(u8, {.shift = 12, .epsilon = 12345});
  add(u8, {.centered = false, .epsilon = 1});
  add(u8, {.centered = false, .shift = 3, .least = int64_t{1} << 40});
  add(u8, {.groups = 3, .joint = true, .shift = 5, .epsilon = 7});
  add(u8, {.groups = 2, .shift = 9, .epsilon = int64_t{1} << 60});
  add(s16, {.shift = 4});
  add(s16, {.joint = true, .shift = 9, .epsilon = int64_t{1} << 50});
  add(s16, {.groups = 4, .joint = true, .centered = false, .shift = 2, .epsilon = 99});
  return b.done();
}

/// Indices of the largest values of accumulators, with one scale and one for each channel, some
/// of which are equal.
ConformanceCase largest() {
  ConformanceBuilder b("arg-max", "ArgMax of accumulators along all axes",
                       Requantization::FloatMultiply);
  Draws draws(12);
  const Weights equal{.codes = {3, -1, 3, -1, 2, 2, -6, 2, 1, -3}, .scales = {0.5f}};
  const Weights uneven{.codes = {3, -1, 6, -2, 2, 2, -6, 2, 1, -3},
                       .scales = {0.5f, 0.25f, 0.7f, 0.1f, 0.9f},
                       .bias = {7, 14, 0, -3, 100000000}};
  for (const DType dtype : {DType::U8, DType::S16}) {
    const ProgramNodeId x = b.random_codes(draws, std::string(to_string_view(dtype)), {2, 3, 2},
                                           whole_grid(dtype, 0.5, 17));
    for (const Weights& w : {equal, uneven}) {
      const ProgramNodeId y = b.linear(x, w);
      for (const int axis : {-1, 1}) b.add(integer::ArgMax{{.axis = axis}}, {y});
      const ProgramNodeId kept = b.add(integer::ArgMax{{.axis = 2, .keep_dims = true}}, {y});
      b.add(integer::Dequantize{}, {b.add(integer::Reshape{{.shape = {-1}}}, {kept})});
    }
  }
  // Values beyond 2^24 that differ, but not as floats.
  const ProgramNodeId x = b.random_codes(draws, "near", {8, 2}, whole_grid(DType::U8, 0.5, 17));
  const Weights near{.codes = {1, 2, 1, 3, 2, 1, 1, 2},
                     .scales = {0.3f},
                     .bias = {400000000, 400000001, 400000003, 400000002}};
  b.add(integer::ArgMax{{.axis = 1}}, {b.linear(x, near)});
  return b.done();
}

/// Rows of tables in the program and of computed ones, by indices of an input and of an ArgMax.
ConformanceCase rows_of_tables() {
  ConformanceBuilder b("embedding", "Embedding of indices that are inputs or computed",
                       Requantization::FloatMultiply);
  Draws draws(13);
  const ProgramNodeId words = b.indices(draws, "words", {2, 3}, 5);
  const ProgramNodeId one = b.indices(draws, "one", {}, 7);
  for (const DType dtype : {DType::U8, DType::S8, DType::S16, DType::U16}) {
    const CodeGrid grid = whole_grid(dtype, 0.25, 3);
    const ProgramNodeId table = b.add(constant_of(draws, {7, 3}, grid), {});
    b.add(integer::Embedding{}, {table, words});
    b.add(integer::Embedding{}, {table, one});
    const ProgramNodeId column =
        b.add(integer::Slice{{.axis = 1, .begin = 1, .end = 2}}, {words});
    b.add(integer::Embedding{}, {table, column});
    const ProgramNodeId turned =
        b.add(integer::Gather{{.axis = 0, .indices = {1, 0, 1}}}, {words});
    b.add(integer::Embedding{}, {table, turned});
    const ProgramNodeId x =
        b.random_codes(draws, std::string(to_string_view(dtype)), {4, 6}, grid);
    const ProgramNodeId best = b.add(integer::ArgMax{}, {x});
    b.add(integer::Requantize{whole_grid(DType::S8, 0.5, 0)},
          {b.add(integer::Embedding{}, {table, best})});
    b.add(integer::Embedding{}, {x, b.add(integer::ArgMax{{.axis = 0}}, {x})});
  }
  b.add(integer::Dequantize{}, {words});
  return b.done();
}

/// Applies an op to the uses in its entry of the table of ops: the first use to codes u8 and
/// u16, the second to s8 and s16, and so on.
ConformanceCase of_op(const OpCase& op_case) {
  const std::string name(op_case.name());
  ConformanceBuilder b("op-" + name, name + " of codes of 8 and 16 bits",
                       Requantization::FloatMultiply);
  Draws draws(9);
  const std::vector<CodeGrid> grids = {
      whole_grid(DType::U8, double{0.02f}, 100), whole_grid(DType::S8, 0.5, -3),
      whole_grid(DType::U16, 0x1p-13, 30000), whole_grid(DType::S16, 0x1p-12, 0)};
  for (size_t i = 0; i < op_case.conformance.size(); ++i) {
    const OpUse& use = op_case.conformance[i];
    for (const size_t k : {i % 2, i % 2 + 2}) {
      const CodeGrid& grid = grids[k];
      const Shape& shape = use.operands.at(0).shape;
      const ProgramNodeId x = b.random_codes(draws, fmt::format("x{}.{}", i, k), shape, grid,
                                             {grid.low, grid.high});
      const ProgramNodeId y = b.add(emit(use.op, {.grid = grid, .x = shape}), {x});
      if (!b.value(y).is_codes()) b.requantize(y, {whole_grid(DType::S8, 0.25, 3)});
    }
  }
  return b.done();
}

}  // namespace

std::vector<ConformanceCase> conformance_cases() {
  std::vector<ConformanceCase> all = {quantize_rounding(), quantize_grids(), structure()};
  for (Requantization requantization : requantization::values) {
    all.push_back(accumulators("accumulators-of-8-bits",
                               "Accumulators of 8-bit codes, by weights of 8, 4 and 2 bits",
                               requantization, {DType::U8, DType::S8, DType::U8}));
    all.push_back(accumulators("accumulators-of-16-bits",
                               "Accumulators of 16-bit codes, by weights of 8, 4 and 2 bits",
                               requantization, {DType::U16, DType::S16, DType::S16}));
    all.push_back(ties(requantization));
    all.push_back(extremes(requantization));
    all.push_back(codes_to_codes(requantization));
    all.push_back(additions(requantization));
    all.push_back(mixed(requantization));
    all.push_back(broadcasts(requantization));
    all.push_back(matrices(requantization));
    all.push_back(totals(requantization));
    all.push_back(norms(requantization));
    all.push_back(network(requantization));
  }
  all.push_back(lookups());
  all.push_back(largest());
  all.push_back(rows_of_tables());
  for (const OpCase& each : op_cases()) {
    if (!each.conformance.empty()) all.push_back(of_op(each));
  }
  all.push_back(convolutions());
  for (ConformanceCase& each : tflite_cases()) all.push_back(std::move(each));
  return all;
}

}  // namespace qtape::test
