// Cases of pointwise ops.
#include <cmath>
#include <limits>
#include <numbers>

#include "qtape/engine/quantizers.h"
#include "qtape/tests/support/pointwise.h"

namespace qtape::test {
namespace {

/// Returns dy f(op, x, dtype), with the factor rounded to the dtype first.
template <class X, class F>
GradientOracle slope(F f) {
  return [f](const OpUse& use, Arrays x, const Array& dy) -> std::vector<Values> {
    const X& op = std::get<X>(use.op);
    const DType dtype = x[0].type.dtype;
    Values dx = dy.values;
    for (size_t i = 0; i < dx.size(); ++i) {
      dx[i] *= stored(f(op, x[0].values[i], dtype), dtype);
    }
    return {dx};
  };
}

const std::string cast_has_none =
    "has integers only as the f32 of an ArgMax: feed the model f32, or end the model before it";

/// Returns an entry whose gradient is checked by differences.
OpCase smooth(const Op& op, ValueOracle value, double low, double high, Tolerance tolerance) {
  return {.value = std::move(value),
          .uses = each_length(op, low, high, true),
          .bench = {realistic(op, low, high)},
          .tolerance = tolerance,
          .integer = converts({op, {{{4, 6}, low, high}}}),
          .refusals = not_computed(op)};
}

double gelu(const Gelu& op, double x) {
  if (op.form == GeluForm::Erf) return x * std::erfc(-x / std::numbers::sqrt2) / 2;
  const double inner = std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * std::pow(x, 3));
  return x * (1 + std::tanh(inner)) / 2;
}

/// The same for a function without attributes.
template <class X>
OpCase smooth(double (*f)(double), double low, double high, Tolerance tolerance) {
  return smooth(X{}, elementwise<X>([f](const X&, double x, DType) { return f(x); }), low, high,
                tolerance);
}

double logistic(double x) {
  return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x));
}

/// Returns an entry of an op without rounding errors: uniform numbers within (low, high) have
/// one slope, the others are on both sides of its corners.
template <class X, class F, class G>
OpCase piecewise(const X& op, double low, double high, F value, G gradient) {
  OpCase c = smooth(op, elementwise<X>(value), low, high, {});
  c.bench = {realistic(op, -1, 1)};
  c.gradient = slope<X>(gradient);
  c.uses.push_back({op, {{{99}, -2, 2, Fill::Halves}}});
  return c;
}

OpCase relu() {
  OpCase c = piecewise(
      Relu{}, 0.1, 1, [](const Relu&, double x, DType) { return x < 0 ? 0.0 : x; },
      [](const Relu&, double x, DType) { return x > 0 ? 1.0 : 0.0; });
  c.uses.push_back({Relu{}, {{{5}, -1, -0.1}}});
  return c;
}

OpCase leaky_relu() {
  OpCase c = piecewise(
      LeakyRelu{.negative_slope = 0.2}, -1, -0.1,
      [](const LeakyRelu& op, double x, DType dtype) {
        return x < 0 ? x * stored(op.negative_slope, dtype) : x;
      },
      [](const LeakyRelu& op, double x, DType) { return x < 0 ? op.negative_slope : 1.0; });
  c.uses.push_back({LeakyRelu{}, {{{5}, 0.1, 1}}});
  c.uses.push_back({LeakyRelu{}, {{{99}, -2, 2, Fill::Halves}}});
  refuse(c, {f32({4})},
         {{LeakyRelu{.negative_slope = std::numeric_limits<double>::infinity()},
           "negative_slope must be finite, got inf"},
          {LeakyRelu{.negative_slope = 1e39},
           "negative_slope is 1e+39, which does not fit into f32"}});
  return c;
}

OpCase abs() {
  OpCase c = piecewise(
      Abs{}, 0.1, 1, [](const Abs&, double x, DType) { return std::signbit(x) ? -x : x; },
      [](const Abs&, double x, DType) { return x > 0   ? 1.0
                                               : x < 0 ? -1.0
                                                       : 0.0; });
  c.uses.push_back({Abs{}, {{{5}, -1, -0.1}}});
  return c;
}

OpCase affine() {
  OpCase c = piecewise(
      Affine{.factor = -0.3, .offset = 1.7}, -3, 3,
      [](const Affine& each, double x, DType dtype) {
        return stored(stored(each.factor, dtype) * x, dtype) + stored(each.offset, dtype);
      },
      [](const Affine& each, double, DType) { return each.factor; });
  for (const Affine& each : {Affine{}, Affine{.factor = 2}, Affine{.offset = -0.5}}) {
    c.uses.push_back({each, {{{33}, -3, 3}}});
  }
  refuse(c, {f32({4})},
         {{Affine{.factor = std::nan("")}, "factor and offset must be finite, got nan and 0"},
          {Affine{.offset = 1e300}, "offset is 1e+300, which does not fit into f32"}});
  return c;
}

OpCase clamp() {
  const Clamp op{.low = -1, .high = 1};
  OpCase c = piecewise(
      op, -0.9, 0.9,
      [](const Clamp& each, double x, DType dtype) {
        const double low = stored(each.low, dtype);
        const double high = stored(each.high, dtype);
        return x < low ? low : x > high ? high : x;
      },
      [](const Clamp& each, double x, DType dtype) {
        return x >= stored(each.low, dtype) && x <= stored(each.high, dtype) ? 1.0 : 0.0;
      });
  c.bench = {realistic(Clamp{.low = -0.1, .high = 0.7}, -1, 1)};
  c.integer = converts({Clamp{.low = -0.5, .high = 1.25}, {{{4, 6}}}});
  c.uses.push_back({op, {{{5}, 1.1, 2}}});
  c.uses.push_back({Clamp{.low = 0.1, .high = 0.1}, {{{99}, -2, 2, Fill::Halves}}});
  refuse(c, {f32({4})},
         {{Clamp{.low = 2, .high = 1}, "low must be at most high, got 2 and 1"},
          {Clamp{.low = std::nan("")}, "low and high must be finite, got nan and 1"},
          {Clamp{.high = 1e39}, "high is 1e+39, which does not fit into f32"}});
  return c;
}

/// Tests the op in all supported places: between two quantizers of 8 bits and of 16 bits, after
/// another function, and, if it only `limits`, between accumulators and their quantizer.
IntegerVerdict converts_anywhere(const Op& op, bool limits) {
  return converts([op, limits](Graph& graph) {
    const FakeQuantize wide = ema.with(&FakeQuantize::bits, 16);
    const NodeId x = graph.add(Input{.shape = {4, 6}}, {}, "x");
    const NodeId q = add_quantizer(graph, x, ema, "x8");
    const NodeId w =
        graph.add(Parameter{.shape = {6, 6}, .initializer = init::Fill{1.5}}, {}, "w");
    const NodeId sums = graph.add(MatMul{}, {q, add_quantizer(graph, w, FakeQuantize{}, "w")});
    const NodeId functions = graph.add(Exp{}, {q});
    const NodeId y = graph.add(op, {q}, "y");
    std::vector<NodeId> results = {
        add_quantizer(graph, y, ema, "of 8 bits"),
        add_quantizer(graph, graph.add(op, {add_quantizer(graph, x, wide, "x16")}), wide,
                      "of 16 bits"),
        add_quantizer(graph, graph.add(op, {functions}), ema, "of functions")};
    if (limits) results.push_back(add_quantizer(graph, graph.add(op, {sums}), ema, "of sums"));
    const Concat join{.axis = 1, .count = static_cast<int>(results.size())};
    graph.set_outputs({add_quantizer(graph, graph.add(join, results), ema, "output")});
    return y;
  });
}

/// Returns x limited to [low, high]; NaN is kept.
double limited(double x, double low, double high) {
  return x < low ? low : x > high ? high : x;
}

/// Returns an entry of an op with corners: uniform numbers within (low, high) are between two
/// of them, the others on them and on both sides.
template <class X, class F, class G>
OpCase with_corners(F value, G gradient, double low, double high, Tolerance tolerance) {
  OpCase c = smooth<X>(value, low, high, tolerance);
  c.gradient = slope<X>([gradient](const X&, double x, DType) { return gradient(x); });
  c.uses.push_back({X{}, {{{7}, -9, -6.1}}});
  c.uses.push_back({X{}, {{{7}, 6.1, 9}}});
  c.uses.push_back({X{}, {{{199}, -8, 8, Fill::Halves}}});
  c.bench = {realistic(X{}, -8, 8)};
  c.integer = converts_anywhere(X{}, false);
  return c;
}

OpCase relu6() {
  OpCase c =
      with_corners<Relu6>([](double x) { return limited(x, 0, 6); },
                          [](double x) { return x > 0 && x < 6 ? 1.0 : 0.0; }, 0.1, 5.9, {});
  c.integer = converts_anywhere(Relu6{}, true);
  return c;
}

OpCase hard_sigmoid() {
  return with_corners<HardSigmoid>([](double x) { return limited(x + 3, 0, 6) / 6; },
                                   [](double x) { return x > -3 && x < 3 ? 1.0 / 6 : 0.0; },
                                   -2.9, 2.9, {.value = 2});
}

OpCase hard_swish() {
  return with_corners<HardSwish>(
      [](double x) { return x <= -3 ? 0 : x * limited(x + 3, 0, 6) / 6; },
      [](double x) { return x < -3  ? 0
                            : x > 3 ? 1
                                    : x / 3 + 0.5; }, -2.9, 2.9,
      {.value = 2, .gradient = 2});
}

OpCase dropout() {
  // Numbers are drawn as documented in random.h: by seed of tape and op, node, step and
  // element.
  const auto passed = [](const OpUse& use, Arrays x, size_t i) {
    const auto& op = std::get<Dropout>(use.op);
    const auto n = static_cast<uint64_t>(x[0].type.elements());
    const uint64_t key = Random(static_cast<uint64_t>(op.seed), 0).bits(0);
    const Random random(OpRun::seed ^ key, x.size());
    return random.uniform(OpRun::number * n + i) >= op.rate;
  };
  const auto dropped = [passed](const OpUse& use, Arrays x, const Values& from) {
    const auto& op = std::get<Dropout>(use.op);
    if (!use.mode.train || op.rate == 0) return from;
    Values to;
    for (size_t i = 0; i < from.size(); ++i) {
      const double scale = stored(1 / (1 - op.rate), x[0].type.dtype);
      to.push_back(passed(use, x, i) ? from[i] * scale : 0.0);
    }
    return to;
  };
  OpCase c{.value =
               [dropped](const OpUse& use, Arrays x) {
                 return Array{x[0].type, dropped(use, x, x[0].values)};
               },
           .bench = {realistic(Dropout{.rate = 0.25}, -1, 1)},
           .gradient = [dropped](const OpUse& use, Arrays x, const Array& dy)
               -> std::vector<Values> { return {dropped(use, x, dy.values)}; },
           .integer = converts({Dropout{.rate = 0.25}, {{{4, 6}}}}),
           .refusals = not_computed(Dropout{})};
  for (int64_t n : {67, 0, 1, 63, 64, 65, 1025}) {
    c.uses.push_back({Dropout{.rate = 0.4, .seed = 4}, {{{n}}}, mode::float_train});
  }
  c.uses.push_back({Dropout{.rate = 0.4}, {{{2, 3, 67}}}});
  c.uses.push_back({Dropout{.rate = 0}, {{{17}}}});
  c.uses.push_back({Dropout{}, {{{67}}}, mode::eval});
  c.uses.push_back({Dropout{}, {{{67}, -1, 1, Fill::Special}}, mode::float_eval});
  c.large = {{Dropout{}, {{{70001}}}}};
  refuse(c, {f32({3})},
         {{Dropout{.rate = 1}, "rate must be in [0, 1), got 1"},
          {Dropout{.rate = std::nan("")}, "rate must be in [0, 1), got nan"}});
  return c;
}

OpCase cast() {
  const auto value = [](const OpUse& use, Arrays x) {
    const DType to = std::get<Cast>(use.op).dtype;
    const int64_t bits = 8 * size_of(to);
    const bool is_unsigned = to == DType::U8 || to == DType::U16;
    const double low = is_unsigned ? 0 : -std::ldexp(1.0, static_cast<int>(bits) - 1);
    const double high = std::ldexp(1.0, static_cast<int>(bits) - (is_unsigned ? 0 : 1)) - 1;
    Array y = x[0];
    y.type.dtype = to;
    for (double& v : y.values) {
      if (is_float(to)) continue;
      // std::remainder uses the nearest multiple, with ties to even.
      v = std::isnan(v) ? 0 : v <= low ? low : v >= high ? high : v - std::remainder(v, 1.0);
    }
    return y;
  };
  OpCase c{.value = value,
           .bench = {{Cast{.dtype = DType::F16}, {{{256, 512}}}}},
           .gradient = passes,
           .straight_through = true,
           .dtypes = all_dtypes,
           .integer = refused(cast_has_none, {Cast{}, {{{4, 6}}}}),
           .refusals = {{Cast{.dtype = DType::S64}, {f32({1})}, "s64 cannot be cast"},
                        {Cast{}, {{DType::S64, {1}}}, "s64 cannot be cast"}}};
  for (DType to : all_dtypes) {
    const Cast op{.dtype = to};
    for (int64_t n : {3, 1025}) {
      c.uses.push_back({op, {{{n}, 0, 128, Fill::Integers}}});
    }
    c.uses.push_back({op, {{.shape = {3}, .dtype = DType::F64}}});
    c.uses.push_back({op, {{{64}, -5, 5, Fill::Halves, DType::F64}}});
    c.uses.push_back({op, {{{99}, -3e9, 3e9, Fill::Special, DType::F32}}});
    c.uses.push_back({op, {{.shape = {4}, .dtype = DType::F64, .values = {1e300, 126.6}}}});
  }
  return c;
}

OpCase elu() {
  const auto value = [](const Elu& op, double x, DType) {
    return op.scale * (x > 0 ? x : op.alpha * std::expm1(op.input_scale * x));
  };
  OpCase c = smooth(Elu{}, elementwise<Elu>(value), -3, -0.1, {.value = 2, .gradient = 4});
  for (const Elu& each : {Elu{.alpha = 1.6732632423543772, .scale = 1.0507009873554805},
                          Elu{.alpha = 0.5, .input_scale = 2}, Elu{.alpha = 0, .scale = -2}}) {
    c.uses.push_back({each, {{{65}, 0.1, 3}}});
    c.uses.push_back({each, {{{65}, -9, -0.1}}});
    c.uses.push_back({each, {{{99}, -2, 2, Fill::Special}}});
  }
  c.bench = {realistic(Elu{}, -3, 3)};
  c.integer = converts_anywhere(Elu{.alpha = 0.7}, false);
  const std::string text =
      "alpha and scale must be finite, input_scale finite and not negative, got ";
  refuse(c, {f32({4})},
         {{Elu{.alpha = std::nan("")}, text + "nan, 1 and 1"},
          {Elu{.input_scale = -1}, text + "1, 1 and -1"}});
  return c;
}

double softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::fabs(x))); }

/// A smooth op of numbers of any size.
template <class X>
OpCase smooth_everywhere(double (*f)(double), double high, double far, Tolerance tolerance) {
  OpCase c = smooth<X>(f, -high, high, tolerance);
  c.uses.push_back({X{}, {{{65}, -far, far}}});
  return c;
}

/// An op with steps at halves or integers, and no slope.
template <class X, class F>
OpCase steps(F value) {
  return with_corners<X>(value, [](double) { return 0.0; }, 0.55, 0.95, {});
}

/// Of negative infinity std::pow is an infinity or 0, here NaN.
double power_of(double x, double exponent) {
  if (x < 0 && std::floor(exponent) != exponent) return std::nan("");
  if (exponent == 0.5) return std::sqrt(x);
  if (exponent == -0.5) return 1 / std::sqrt(x);
  return std::pow(x, exponent);
}

OpCase power() {
  const auto value = [](const Pow& op, double x, DType) { return power_of(x, op.exponent); };
  OpCase c = smooth(Pow{}, elementwise<Pow>(value), -2, 2, {.value = 256, .gradient = 256});
  c.gradient = slope<Pow>([](const Pow& op, double x, DType) {
    return op.exponent == 0 ? 0 : op.exponent * power_of(x, op.exponent - 1);
  });
  for (const double exponent : {3.0, -1.0, -2.0, 0.0, 1.0, 5.0}) {
    const Pow op{.exponent = exponent};
    c.uses.push_back({op, {{{33}, 0.8, 1.2}}});
    c.uses.push_back({op, {{{33}, -1.2, -0.8}}});
    c.uses.push_back({op, {{{99}, -2, 2, Fill::Special}}});
  }
  // The last exponents that are products, and the first that are not.
  for (const double exponent : {64.0, 65.0, -66.0}) {
    c.uses.push_back({Pow{.exponent = exponent}, {{{33}, -2, 2, Fill::Halves}}});
  }
  for (const double exponent : {0.5, -0.5, 0.75, -1.3, 2.5}) {
    c.uses.push_back({Pow{.exponent = exponent}, {{{65}, 0.5, 2}}});
    c.uses.push_back({Pow{.exponent = exponent}, {{{99}, -2, 2, Fill::Special}}});
  }
  for (const double exponent : {0.5, -1.0, 2.0}) {
    c.exact.push_back({Pow{.exponent = exponent}, {{{65}, 0.5, 2}}});
  }
  c.bench = {realistic(Pow{.exponent = 3}, -2, 2), realistic(Pow{.exponent = 0.75}, 0.5, 2)};
  refuse(c, {f32({4})},
         {{Pow{.exponent = std::numeric_limits<double>::infinity()},
           "exponent must be finite, got inf"}});
  return c;
}

/// The op between an unsigned quantizer and a signed one.
IntegerVerdict converts_unsigned(const Op& op) {
  return converts([op](Graph& graph) {
    const FakeQuantize above{.range = CodeRange::Unsigned, .scale_mode = EMA{}};
    const NodeId x = graph.add(Input{.shape = {4, 6}}, {}, "x");
    const NodeId y = graph.add(op, {add_quantizer(graph, x, above, "xq")}, "y");
    graph.set_outputs({add_quantizer(graph, y, ema, "output")});
    return y;
  });
}

}  // namespace

std::vector<OpCase> pointwise_cases() {
  OpCase neg = smooth<Neg>([](double x) { return -x; }, -1, 1, {});
  neg.gradient = slope<Neg>([](const Neg&, double, DType) { return -1.0; });
  OpCase erf = smooth(
      Gelu{}, elementwise<Gelu>([](const Gelu& op, double x, DType) { return gelu(op, x); }),
      -3, 3, {.value = 8, .gradient = 8});
  erf.uses.push_back({Gelu{.form = GeluForm::Tanh}, {{{17}, -3, 3}}});
  erf.uses.push_back({Gelu{.form = GeluForm::Tanh}, {{{1025}, -3, 3}}});
  OpCase log =
      smooth<Log>([](double x) { return std::log(x); }, 0.5, 3, {.value = 2, .gradient = 2});
  log.integer = converts_unsigned(Log{});
  OpCase sqrt = smooth<Sqrt>([](double x) { return std::sqrt(x); }, 0.5, 3, {.gradient = 2});
  sqrt.integer = converts_unsigned(Sqrt{});
  const Tolerance two{.value = 2, .gradient = 2};
  const Tolerance eight{.value = 4, .gradient = 8};
  const auto softplus_of = [](double x) { return std::isnan(x) ? x : softplus(x); };
  const auto mish = [](double x) { return std::isnan(x) ? x : x * std::tanh(softplus(x)); };
  const auto sign = [](double x) { return x > 0 ? 1 : x < 0 ? -1 : x; };
  const auto sin = [](double x) { return std::fabs(x) > 0x1p26 ? NAN : std::sin(x); };
  const auto cos = [](double x) { return std::fabs(x) > 0x1p26 ? NAN : std::cos(x); };
  return {
      neg,
      relu(),
      leaky_relu(),
      smooth<Sigmoid>(logistic, -4, 4, two),
      smooth<Tanh>([](double x) { return std::tanh(x); }, -3, 3, two),
      erf,
      smooth<Exp>([](double x) { return std::exp(x); }, -3, 3, two),
      log,
      sqrt,
      clamp(),
      abs(),
      affine(),
      relu6(),
      hard_sigmoid(),
      hard_swish(),
      elu(),
      smooth_everywhere<Softplus>(softplus_of, 4, 80, two),
      smooth_everywhere<Mish>(mish, 4, 60, eight),
      smooth<Erf>([](double x) { return std::erf(x); }, -3, 3, {.value = 32, .gradient = 8}),
      power(),
      smooth_everywhere<Sin>(sin, 3, 80, eight),
      smooth_everywhere<Cos>(cos, 3, 80, eight),
      smooth_everywhere<Atan>([](double x) { return std::atan(x); }, 3, 80, eight),
      steps<Signum>(sign),
      steps<Floor>([](double x) { return std::floor(x); }),
      steps<Round>([](double x) { return std::nearbyint(x); }),
      dropout(),
      cast(),
  };
}

}  // namespace qtape::test
