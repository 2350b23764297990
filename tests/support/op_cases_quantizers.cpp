// Cases of the quantizers. tests/ops tests the formulas with all attributes by
// quantizer_bench.h and quantize_trial.h; here the ops run the checks common to all ops.
#include <algorithm>
#include <cmath>
#include <limits>

#include "qtape/engine/quantizers.h"
#include "qtape/model/layers.h"
#include "qtape/tests/support/op_case.h"
#include "qtape/tests/support/quantize_oracle.h"

namespace qtape::test {
namespace {

/// Returns the FakeQuantize with the codes and the mask of any quantizer.
FakeQuantize grid_op(const Op& op) {
  if (const auto* fake = std::get_if<FakeQuantize>(&op)) return *fake;
  FakeQuantize result{.ste = Ste::ClippedIdentity, .scale_mode = Fixed{}};
  const auto take = [&](const auto& each) {
    result.bits = each.bits;
    result.axis = each.axis;
    result.group_size = each.group_size;
    result.range = each.range;
    result.rounding = each.rounding;
    result.division = each.division;
    if constexpr (requires { each.scheme; }) result.scheme = each.scheme;
    if constexpr (requires { each.mask; }) result.mask = each.mask;
  };
  if (const auto* lsq = std::get_if<FakeQuantizeLSQ>(&op)) take(*lsq);
  if (const auto* pact = std::get_if<FakeQuantizePACT>(&op)) take(*pact);
  if (const auto* codes = std::get_if<Quantize>(&op)) {
    take(*codes);
    result.zero_point = codes->zero_point;
  }
  return result;
}

/// Returns scale and zero point of each element, in the type in which the op computes.
template <class T>
std::vector<QParams<T>> element_qparams(const OpUse& use, Arrays x) {
  const FakeQuantize op = grid_op(use.op);
  const auto [q_min, q_max] = oracle_limits(op.bits, op.range);
  const size_t n = x[0].values.size();
  std::vector<size_t> channel(n);
  size_t channels = 1;
  for (size_t i = 0; i < n; ++i) {
    channel[i] = oracle_channel(i, x[0].type.shape, op);
    channels = std::max(channels, channel[i] + 1);
  }
  std::vector<QParams<T>> each(channels);
  if (std::holds_alternative<PerBatch>(op.scale_mode)) {
    std::vector<Values> parts(channels);
    for (size_t i = 0; i < n; ++i) {
      if (std::isfinite(x[0].values[i])) parts[channel[i]].push_back(x[0].values[i]);
    }
    for (size_t c = 0; c < channels; ++c) {
      const T low = parts[c].empty() ? T(0) : static_cast<T>(std::ranges::min(parts[c]));
      const T high = parts[c].empty() ? T(0) : static_cast<T>(std::ranges::max(parts[c]));
      const bool zeros = !parts[c].empty() && low == 0 && high == 0;
      each[c] = zeros ? oracle_qparams(T(-1), T(1), op) : oracle_qparams(low, high, op);
    }
  }
  for (size_t c = 0; c < channels && x.size() > 1; ++c) {
    const T state = static_cast<T>(x[1].values[c]);
    each[c].scale = state;
    if (std::holds_alternative<FakeQuantizeLSQ>(use.op)) each[c].scale = std::fabs(state);
    if (std::holds_alternative<FakeQuantizePACT>(use.op)) {
      each[c].scale = static_cast<T>(state / static_cast<T>(q_max));
    }
    each[c].scale = oracle_scale_in_use(each[c].scale, op);
    if (x.size() > 2) {
      const long double zero = oracle_round(static_cast<T>(x[2].values[c]), Rounding::HalfEven);
      each[c].zero_point = static_cast<T>(std::clamp<long double>(zero, q_min, q_max));
    }
  }
  std::vector<QParams<T>> result;
  for (size_t i = 0; i < n; ++i) result.push_back(each[channel[i]]);
  return result;
}

/// Calls f(v, q, i) for each element v of x and its scale and zero point, in the type in which
/// the op computes.
template <class F>
void for_each_element(const OpUse& use, Arrays x, const F& f) {
  dispatch_compute(x[0].type.dtype, [&]<class T>() {
    const auto qparams = element_qparams<T>(use, x);
    for (size_t i = 0; i < qparams.size(); ++i) {
      f(static_cast<T>(x[0].values[i]), qparams[i], i);
    }
  });
}

Array fake_quantized(const OpUse& use, Arrays x) {
  if (!use.mode.quantize) return x[0];
  const FakeQuantize op = grid_op(use.op);
  Array y = x[0];
  for_each_element(use, x, [&](auto v, const auto& q, size_t i) {
    y.values[i] = double{oracle_fake(v, q, op)};
  });
  return y;
}

/// Returns dy where x is inside, without gradients of operands after x.
std::vector<Values> straight_through(const OpUse& use, Arrays x, const Array& dy) {
  const FakeQuantize op = grid_op(use.op);
  std::vector<Values> gradients(x.size());
  gradients[0] = dy.values;
  // If neither end can clip, x is not tested, not even for NaN.
  const bool open = std::holds_alternative<PerBatch>(op.scale_mode) &&
                    (op.scheme == Scheme::Affine || op.range != CodeRange::Unsigned);
  if (!use.mode.quantize || op.ste == Ste::Identity || open) return gradients;
  for_each_element(use, x, [&](auto v, const auto& q, size_t i) {
    if (!oracle_inside(v, q, op)) gradients[0][i] = 0;
  });
  return gradients;
}

Operand data(const Shape& shape, Fill fill = Fill::Uniform) { return {shape, -2, 2, fill}; }

IntegerVerdict converts_as(const Op& op) {
  return converts([op](Graph& graph) {
    const NodeId x = graph.add(Input{.shape = {4, 6}}, {}, "x");
    const NodeId y = add_quantizer(graph, x, op, "x");
    graph.set_outputs({y});
    return y;
  });
}

const std::string takes_floats = "expected f32, f64, f16 or bf16, got s32";

OpCase fake_quantize() {
  const FakeQuantize fixed{.ste = Ste::ClippedIdentity, .scale_mode = Fixed{}};
  const FakeQuantize affine = fixed.with(&FakeQuantize::scheme, Scheme::Affine);
  const FakeQuantize batch{.bits = 4, .ste = Ste::ClippedIdentity};
  OpCase c{
      .value = fake_quantized,
      .uses = {{batch, {data({67})}},
               {batch, {data({99}, Fill::Special)}},
               {batch, {data({0})}},
               {batch, {data({})}},
               {FakeQuantize{.axis = 0}, {data({6, 35})}},
               {FakeQuantize{.axis = 1, .group_size = 7}, {data({6, 35})}},
               {FakeQuantize{.scheme = Scheme::Affine}, {data({6, 35})}},
               {batch.with(&FakeQuantize::power_of_two, true), {data({67})}},
               {FakeQuantize{.axis = 0, .power_of_two = true}, {data({6, 35})}},
               {FakeQuantize{.scheme = Scheme::Affine, .power_of_two = true}, {data({6, 35})}},
               {fixed.with(&FakeQuantize::power_of_two, true), {data({99}), scales({0.01})}},
               {fixed, {data({1025}), scales({0.01})}},
               {fixed, {data({99}, Fill::Special), scales({0.25})}},
               {fixed, {data({99}, Fill::Halves), scales({1})}},
               {fixed.with(&FakeQuantize::axis, 1), {data({9, 3}), scales({1, 0.25, 0.1})}},
               {affine, {data({99}), scales({0.01}), scales({30})}},
               {fixed, {data({67}), scales({0.25})}, mode::eval},
               {fixed, {data({67}), scales({0.25})}, mode::observe},
               {FakeQuantize{.ste = Ste::Tanh, .scale_mode = EMA{}},
                {data({67}), scales({0.25})},
                mode::float_train},
               {FakeQuantize{.axis = 0, .ste = Ste::Tanh, .scale_mode = EMA{}},
                {data({3, 5}), scales({0.1, 0.1, 0.1})},
                mode::float_eval},
               {fixed.with(&FakeQuantize::scale_mode, EMA{}),
                {data({67}), scales({0.25})},
                mode::eval}},
      .large = {{batch, {data({70003})}},
                {affine, {data({64, 768}), scales({0.01}), scales({3})}}},
      .bench = {{FakeQuantize{.axis = 0, .ste = Ste::ClippedIdentity}, {data({256, 512})}}},
      .gradient = straight_through,
      .straight_through = true,
      .dtypes = floats,
      .integer = converts_as(ema),
      .refusals = {{FakeQuantize{}, {s32({4})}, takes_floats}}};
  using X = FakeQuantize;
  const TensorType x = f32({4, 6});
  const double nan = std::numeric_limits<double>::quiet_NaN();
  refuse(c, {x},
         {{X{.bits = 1}, "bits must be in 2..16 for range Narrow, got 1"},
          {X{.bits = 17}, "bits must be in 2..16 for range Narrow, got 17"},
          {X{.bits = 0, .range = CodeRange::Unsigned},
           "bits must be in 1..16 for range Unsigned, got 0"},
          {X{.axis = 2}, "axis 2 is out of range for rank 2"},
          {X{.axis = -3}, "axis -3 is out of range for rank 2"},
          {X{.floor = 0}, "floor must be a normal f32 above 0, got 0"},
          {X{.axis = 1, .group_size = 4},
           "group_size 4 must be at least 1 and divide axis 1, which has 6"},
          {X{.axis = 1, .group_size = 0},
           "group_size 0 must be at least 1 and divide axis 1, which has 6"},
          {X{.group_size = 2}, "group_size needs an axis"}});
  refuse(
      c, {x, f32({1})},
      {{X{.scale_mode = EMA{.decay = 1}}, "decay must be in [0, 1), got 1"},
       {X{.scale_mode = EMA{.decay = nan}}, "decay must be in [0, 1), got nan"},
       {X{.scale_mode = EMA{.weight = 0.01}}, "no error"},
       {X{.scale_mode = EMA{.decay = 0.9, .weight = 0.01}},
        "decay and weight must add up to 1, got 0.9 and 0.01"},
       {X{.scale_mode = EMA{.weight = nan}},
        "decay and weight must add up to 1, got 0.99 and nan"},
       {X{.scheme = Scheme::Affine, .scale_mode = EMA{}},
        "scheme Affine needs EMA with track Range, got track Scale"},
       {X{.scale_mode = EMA{.track = Track::Range}}, "range must be f32[2, 1], got f32[1]"}});
  refuse(c, fixed.with(&X::axis, 1), {{{x, f32({4})}, "scale must be f32[6], got f32[4]"}});
  refuse(c, fixed.with(&X::axis, 1).with(&X::group_size, 3),
         {{{x, f32({2})}, "scale must be f32[4, 2], got f32[2]"}});
  refuse(c, affine, {{{x, f32({1}), f32({2})}, "zero_point must be f32[1], got f32[2]"}});
  return c;
}

/// Returns dscale and dzero_point of LSQ, by the formulas of its documentation.
std::vector<Values> lsq_gradients(const OpUse& use, Arrays x, const Array& dy) {
  std::vector<Values> gradients = straight_through(use, x, dy);
  for (size_t k = 1; k < x.size(); ++k) gradients[k].resize(x[k].values.size());
  if (!use.mode.quantize) return gradients;
  const FakeQuantize op = grid_op(use.op);
  const CodeLimits limits = oracle_limits(op.bits, op.range);
  std::vector<double> counts(x[1].values.size());
  for_each_element(use, x, [&](auto v, const auto& q, size_t i) {
    const size_t c = oracle_channel(i, x[0].type.shape, op);
    ++counts[c];
    if (std::isnan(v)) return;
    const long double code = oracle_nearest(v, q, op);
    const double z = double{oracle_quotient(v, q.scale, op.division)};
    const double zero = double{q.zero_point};
    const bool inside = oracle_inside(v, q, op);
    const double t = inside                ? static_cast<double>(code) - zero - z
                     : code < limits.q_min ? limits.q_min - zero
                                           : limits.q_max - zero;
    gradients[1][c] += dy.values[i] * t * (x[1].values[c] < 0 ? -1 : 1);
    if (x.size() > 2 && !inside) gradients[2][c] -= dy.values[i] * double{q.scale};
  });
  for (size_t k = 1; k < x.size(); ++k) {
    for (size_t c = 0; c < counts.size(); ++c) {
      gradients[k][c] /= std::sqrt(std::max(1.0, counts[c]) * limits.q_max);
    }
  }
  return gradients;
}

OpCase learned_scale() {
  const FakeQuantizeLSQ symmetric{.bits = 3};
  const FakeQuantizeLSQ affine{.bits = 4, .axis = 0, .scheme = Scheme::Affine};
  OpCase c{.value = fake_quantized,
           .uses = {{symmetric, {data({67}), scales({0.21})}},
                    {symmetric, {data({67}), scales({-0.21})}},
                    {affine, {data({3, 5}), scales({1, 0.25, 0.1}), scales({0, 1.2, -3.4})}},
                    {FakeQuantizeLSQ{.bits = 4, .axis = 1, .group_size = 5},
                     {data({2, 35}), {{2, 7}, 0.1, 1, Fill::Uniform, {}, true}}},
                    {FakeQuantizeLSQ{.axis = 0, .scheme = Scheme::Affine},
                     {data({3, 5}), scales({1, 1.5, 2}), scales({0.3, 0, -1})},
                     mode::float_train}},
           .large = {{FakeQuantizeLSQ{.axis = 0},
                      {data({300, 301}), {{300}, 0.01, 0.1, Fill::Uniform, {}, true}}}},
           .bench = {{FakeQuantizeLSQ{}, {data({256, 512}), scales({0.01})}}},
           .gradient = lsq_gradients,
           .straight_through = true,
           .tolerance = {.gradient = 8},
           .dtypes = floats,
           .integer = converts_as(FakeQuantizeLSQ{}),
           .refusals = {{FakeQuantizeLSQ{}, {s32({4}), f32({1})}, takes_floats},
                        {symmetric, {f32({4}), f64({1})}, "scale must be f32[1], got f64[1]"}}};
  const TensorType x = f32({4, 6});
  refuse(c, {x, f32({1})},
         {{FakeQuantizeLSQ{.bits = 1}, "bits must be in 2..16 for range Narrow, got 1"},
          {FakeQuantizeLSQ{.axis = 0}, "scale must be f32[4], got f32[1]"}});
  refuse(c, FakeQuantizeLSQ{.scheme = Scheme::Affine},
         {{{x, f32({1}), x}, "zero_point must be f32[1], got f32[4, 6]"}});
  return c;
}

std::vector<Values> pact_gradients(const OpUse& use, Arrays x, const Array& dy) {
  std::vector<Values> gradients = {dy.values, Values(x[1].values.size())};
  if (!use.mode.quantize) return gradients;
  const FakeQuantize op = grid_op(use.op);
  const bool is_signed = op.range != CodeRange::Unsigned;
  for (size_t i = 0; i < dy.values.size(); ++i) {
    const size_t c = oracle_channel(i, x[0].type.shape, op);
    const double v = x[0].values[i];
    const double alpha = x[1].values[c];
    const bool above = v >= alpha;
    const bool below = is_signed && v <= -alpha;
    const bool inside = is_signed ? std::fabs(v) < alpha : v >= 0 && v < alpha;
    if (!inside) gradients[0][i] = 0;
    if (above) gradients[1][c] += dy.values[i];
    if (below) gradients[1][c] -= dy.values[i];
  }
  return gradients;
}

OpCase learned_clipping() {
  const FakeQuantizePACT narrow{.bits = 3, .range = CodeRange::Narrow};
  OpCase c{.value = fake_quantized,
           .uses = {{FakeQuantizePACT{.bits = 4}, {data({67}), scales({1.3})}},
                    {narrow, {data({67}), scales({1.3})}},
                    {narrow, {data({99}, Fill::Halves), scales({1.5})}},
                    {FakeQuantizePACT{.axis = 1}, {data({9, 3}), scales({1, 0.5, 1.7})}},
                    {FakeQuantizePACT{}, {data({67}), scales({1.5})}, mode::float_train}},
           .large = {{FakeQuantizePACT{}, {data({300, 301}), scales({1.1})}}},
           .bench = {{FakeQuantizePACT{}, {data({256, 512}), scales({1.1})}}},
           .gradient = pact_gradients,
           .straight_through = true,
           .tolerance = {.gradient = 4},
           .dtypes = floats,
           .integer = converts_as(FakeQuantizePACT{}),
           .refusals = {{FakeQuantizePACT{}, {s32({4}), f32({1})}, takes_floats}}};
  refuse(c, {f32({4, 6}), f32({1})},
         {{FakeQuantizePACT{.range = CodeRange::Full},
           "range must be Unsigned or Narrow, got Full"},
          {FakeQuantizePACT{.group_size = 2}, "group_size needs an axis"},
          {FakeQuantizePACT{.floor = -1}, "floor must be a normal f32 above 0, got -1"}});
  return c;
}

OpCase quantize() {
  const Quantize four{.bits = 4};
  const Quantize affine{.bits = 8,
                        .axis = 1,
                        .range = CodeRange::Unsigned,
                        .scheme = Scheme::Affine,
                        .mask = MaskRule::Value};
  OpCase c{.value =
               [](const OpUse& use, Arrays x) {
                 const FakeQuantize op = grid_op(use.op);
                 const bool is_unsigned = op.range == CodeRange::Unsigned;
                 const DType narrow = is_unsigned ? DType::U8 : DType::S8;
                 const DType wide = is_unsigned ? DType::U16 : DType::S16;
                 Array y{{op.bits <= 8 ? narrow : wide, x[0].type.shape}, {}};
                 for_each_element(use, x, [&](auto v, const auto& q, size_t) {
                   y.values.push_back(static_cast<double>(oracle_code(v, q, op)));
                 });
                 return y;
               },
           .uses = {{four, {data({67}), scales({0.25})}},
                    {four, {data({0}), scales({0.25})}},
                    {four, {data({99}, Fill::Halves), scales({1})}},
                    {Quantize{.bits = 12}, {data({1025}), scales({0.001})}},
                    {Quantize{.bits = 16, .range = CodeRange::Unsigned},
                     {data({1025}), scales({0.0001})}},
                    {affine, {data({9, 3}), scales({1, 0.25, 0.1}), scales({0, 100, 255})}}},
           .large = {{four, {data({70003}), scales({0.25})}}},
           .bench = {{Quantize{}, {data({256, 512}), scales({0.01})}}},
           .gradient =
               [](const OpUse& use, Arrays x, const Array& dy) {
                 std::vector<Values> gradients = straight_through(use, x, dy);
                 for_each_element(use, x, [&]<class T>(T, const auto& q, size_t i) {
                   gradients[0][i] =
                       double{static_cast<T>(static_cast<T>(gradients[0][i]) / q.scale)};
                 });
                 return gradients;
               },
           .straight_through = true,
           .dtypes = floats,
           .integer = refused(no_integers,
                              [](Graph& graph) {
                                const NodeId x = graph.add(Input{.shape = {4, 6}}, {}, "x");
                                const NodeId scale =
                                    graph.add(State{.shape = {1}, .value = 0.25}, {}, "scale");
                                const NodeId q = graph.add(Quantize{}, {x, scale}, "q");
                                const NodeId y = graph.add(Dequantize{}, {q, scale}, "y");
                                graph.set_outputs({add_quantizer(graph, y, ema, "output")});
                                return q;
                              }),
           .refusals = {{Quantize{}, {s32({4}), f32({1})}, takes_floats}}};
  const TensorType x = f32({4, 6});
  const TensorType one = f32({1});
  refuse(c, {x, one},
         {{Quantize{}, "no error"},
          {Quantize{.bits = 1}, "bits must be in 2..16 for range Narrow, got 1"},
          {Quantize{.bits = 17, .range = CodeRange::Unsigned},
           "bits must be in 1..16 for range Unsigned, got 17"},
          {Quantize{.axis = 2}, "axis 2 is out of range for rank 2"},
          {Quantize{.axis = 1, .group_size = 4},
           "group_size 4 must be at least 1 and divide axis 1, which has 6"},
          {Quantize{.group_size = 2}, "group_size needs an axis"},
          {Quantize{.axis = 1}, "scale must be f32[6], got f32[1]"}});
  refuse(c, Quantize{},
         {{{TensorType{DType::S8, {4}}, one}, "expected f32, f64, f16 or bf16, got s8"},
          {{f64({4}), one}, "scale must be f64[1], got f32[1]"}});
  refuse(c, Quantize{.axis = 1, .scheme = Scheme::Affine},
         {{{x, f32({6}), one}, "zero_point must be f32[6], got f32[1]"}});
  return c;
}

/// Returns f(i, c) times the scale of c for each element i of channel c, in the type of y.
template <class F>
Values dequantized(const OpUse& use, Arrays x, const F& f) {
  const auto& op = std::get<Dequantize>(use.op);
  const FakeQuantize grid{.axis = op.axis, .group_size = op.group_size};
  Values all;
  dispatch_compute(op.dtype, [&]<class T>() {
    for (size_t i = 0; i < x[0].values.size(); ++i) {
      const size_t k = oracle_channel(i, x[0].type.shape, grid);
      const T steps = static_cast<T>(f(i, k));
      all.push_back(double{static_cast<T>(steps * static_cast<T>(x[1].values[k]))});
    }
  });
  return all;
}

OpCase dequantize() {
  OpCase c{
      .value =
          [](const OpUse& use, Arrays x) {
            return Array{{std::get<Dequantize>(use.op).dtype, x[0].type.shape},
                         dequantized(use, x, [&](size_t i, size_t k) {
                           return x[0].values[i] - (x.size() > 2 ? x[2].values[k] : 0);
                         })};
          },
      .bench = {{Dequantize{}, {integers(DType::S8, {256, 512}, -127, 128), scales({0.01})}}},
      .gradient =
          [](const OpUse& use, Arrays x, const Array& dy) {
            std::vector<Values> gradients(x.size());
            gradients[0] = dequantized(use, x, [&](size_t i, size_t) { return dy.values[i]; });
            return gradients;
          },
      .straight_through = true,
      .dtypes = {DType::F32},
      .integer = refused(no_integers, [](Graph& graph) {
        const NodeId q = graph.add(Input{.dtype = DType::S8, .shape = {4, 6}}, {}, "q");
        const NodeId scale = graph.add(State{.shape = {1}, .value = 0.25}, {}, "scale");
        const NodeId y = graph.add(Dequantize{}, {q, scale}, "y");
        graph.set_outputs({add_quantizer(graph, y, ema, "output")});
        return y;
      })};
  const TensorType one = f32({1});
  const TensorType q{DType::S8, {4, 6}};
  refuse(c, Dequantize{},
         {{{s32({4}), one}, "expected s8, u8, s16 or u16, got s32"},
          {{f32({4}), one}, "expected s8, u8, s16 or u16, got f32"}});
  refuse(c, {q, one},
         {{Dequantize{}, "no error"},
          {Dequantize{.dtype = DType::S8}, "dtype must be f32, f64, f16 or bf16, got s8"},
          {Dequantize{.dtype = DType::F64}, "scale must be f64[1], got f32[1]"},
          {Dequantize{.dtype = DType::BF16}, "no error"},
          {Dequantize{.axis = -3}, "axis -3 is out of range for rank 2"},
          {Dequantize{.axis = 1, .group_size = 5},
           "group_size 5 must be at least 1 and divide axis 1, which has 6"}});
  refuse(c, Dequantize{.scheme = Scheme::Affine},
         {{{q, one, f32({6})}, "zero_point must be f32[1], got f32[6]"}});
  for (DType to : floats) {
    const auto of = [&](const Dequantize& op, DType from, const Shape& shape, double low,
                        double high, const std::vector<Values>& numbers) {
      OpUse use{op, {integers(from, shape, low, high)}};
      for (const Values& each : numbers) {
        use.operands.push_back(scales(each));
        use.operands.back().dtype = to;
      }
      c.uses.push_back(use);
    };
    of({.dtype = to}, DType::S8, {67}, -128, 128, {{0.3}});
    of({.dtype = to}, DType::S16, {2, 1025}, -32768, 32768, {{0.001}});
    of({.axis = 1, .scheme = Scheme::Affine, .dtype = to}, DType::U8, {9, 3}, 0, 256,
       {{1, 0.25, 0.1}, {0, 100, 255}});
    of({.axis = 0, .scheme = Scheme::Affine, .dtype = to}, DType::U16, {2, 35}, 0, 65536,
       {{0.5, 0.1}, {7, 65535}});
  }
  return c;
}

OpCase quantize_bias() {
  const auto use = [](const Shape& b, double low, double high, Fill fill, const Values& w) {
    return OpUse{FakeQuantizeBias{},
                 {{b, low, high, fill},
                  {.shape = {3, 5}, .sources = {0.5}},
                  {.shape = {b[0], 5}, .sources = w}}};
  };
  const Values four = {0.25, 0.1, 1e-12, 3};
  OpCase c{
      .value =
          [](const OpUse& each, Arrays x) {
            Array y = x[0];
            constexpr double most = 2147483647.0;
            for (size_t i = 0; i < y.values.size() && each.mode.quantize; ++i) {
              const auto& w = x[2].values;
              const double step = x[1].values[0] * w[w.size() == 1 ? 0 : i];
              const double v = y.values[i] / step;
              if (std::isnan(v)) continue;
              const double code = std::isinf(v) ? v : v - std::remainder(v, 1.0);
              y.values[i] = std::clamp(code, -most, most) * step + 0.0;
            }
            return y;
          },
      .uses = {use({4}, -1, 1, Fill::Uniform, four),
               use({37}, -1, 1, Fill::Uniform, {0.25}),
               use({99}, -3, 3, Fill::Special, {0.125}),
               use({99}, -3, 3, Fill::Halves, {2}),
               use({4}, -1e9, 1e9, Fill::Uniform, four),
               {FakeQuantizeBias{},
                {{{4}}, {.shape = {3, 5}, .sources = {1}}, {.shape = {4, 5}, .sources = {1}}},
                mode::float_train}},
      .bench = {use({1024}, -1, 1, Fill::Uniform, {0.01})},
      .gradient = [](const OpUse&, Arrays, const Array& dy) -> std::vector<Values> {
        return {dy.values, {}, {}};
      },
      .straight_through = true,
      .integer = converts([](Graph& graph) {
        const NodeId x = graph.add(Input{.shape = {4, 6}}, {}, "x");
        graph.set_outputs({linear(graph, x,
                                  {.out = 5,
                                   .weight_quantizer = FakeQuantize{.axis = 0},
                                   .input_quantizer = ema,
                                   .label = "fc"})});
        return graph.at("fc.bias.quantized");
      }),
      .refusals = {{FakeQuantizeBias{},
                    {s32({4}), f32({3, 5}), f32({4, 5})},
                    "expected f32 or f64, got s32"},
                   {FakeQuantizeBias{},
                    {f32({3, 5}), f32({3, 5}), f32({4, 5})},
                    "b must be [n], got [3, 5]"}}};
  constexpr double inf = std::numeric_limits<double>::infinity();
  const Values biases = {0.0,  -0.0, 0.0625, 0.1875, -0.0625, -0.1875,      0.3,
                         1e30, -3e8, 1e-30,  inf,    -inf,    std::nan(""), 5e-324};
  for (const auto& [s_x, s_w] : std::vector<std::pair<double, double>>{
           {0.5, 0.25}, {0.1, 0.3}, {1e-12, 1e-12}, {2e-38, 2e-38}, {1e30, 1e4}}) {
    c.uses.push_back({FakeQuantizeBias{},
                      {{.shape = {14}, .values = biases},
                       {.shape = {3, 5}, .sources = {s_x}},
                       {.shape = {14, 5}, .sources = {s_w}}}});
  }
  return c;
}

}  // namespace

std::vector<OpCase> quantizer_cases() {
  return {fake_quantize(), learned_scale(), learned_clipping(),
          quantize(),      dequantize(),    quantize_bias()};
}

}  // namespace qtape::test
