// Cases of the norms, and of the ops of folded norms.
#include <algorithm>
#include <cmath>

#include "qtape/engine/quantizers.h"
#include "qtape/tests/support/op_case.h"

namespace qtape::test {
namespace {

/// Returns the elements of channel c of x [..., channels].
Values channel_of(const Array& x, size_t c) {
  const auto channels = static_cast<size_t>(x.type.shape[-1]);
  Values values;
  for (size_t i = c; i < x.values.size(); i += channels) values.push_back(x.values[i]);
  return values;
}

double mean_of(const Values& values) {
  double sum = 0;
  for (double each : values) sum += each;
  return sum / static_cast<double>(values.size());
}

/// Returns the mean squared distance to the mean.
double variance_of(const Values& values) {
  const double mean = mean_of(values);
  double sum = 0;
  for (double each : values) sum += (each - mean) * (each - mean);
  return sum / static_cast<double>(values.size());
}

/// Returns f(x, c) for each element of x, where c is its channel.
Array by_channel(const Array& x, const std::function<double(double, size_t)>& f) {
  Array y = x;
  const auto channels = static_cast<size_t>(x.type.shape[-1]);
  for (size_t i = 0; i < y.values.size(); ++i) y.values[i] = f(y.values[i], i % channels);
  return y;
}

Array normalized(const OpUse& use, Arrays x) {
  const double eps = std::get<BatchNorm>(use.op).eps;
  Values mean = x[3].values;
  Values variance = x[4].values;
  for (size_t c = 0; c < mean.size() && use.mode.batch_statistics; ++c) {
    mean[c] = mean_of(channel_of(x[0], c));
    variance[c] = variance_of(channel_of(x[0], c));
  }
  return by_channel(x[0], [&](double v, size_t c) {
    return x[1].values[c] * (v - mean[c]) / std::sqrt(variance[c] + eps) + x[2].values[c];
  });
}

/// Returns the batch norm of (v - bias) / r, the result of a layer without folding.
Array corrected(const OpUse& use, Arrays x) {
  if (!use.mode.batch_statistics) return x[0];
  const double eps = std::get<BatchNormCorrection>(use.op).eps;
  const Array plain = by_channel(
      x[0], [&](double v, size_t c) { return (v - x[4].values[c]) / x[3].values[c]; });
  const auto channels = static_cast<size_t>(x[0].type.shape[-1]);
  Values mean(channels);
  Values variance(channels);
  for (size_t c = 0; c < channels; ++c) {
    mean[c] = mean_of(channel_of(plain, c));
    variance[c] = variance_of(channel_of(plain, c));
  }
  return by_channel(plain, [&](double z, size_t c) {
    if (x[3].values[c] == 0) return x[2].values[c];
    return x[1].values[c] * (z - mean[c]) / std::sqrt(variance[c] + eps) + x[2].values[c];
  });
}

/// Returns x [..., c] and the other operands: gamma, beta, running mean and variance.
std::vector<Operand> batch_norm_operands(const Shape& x) {
  const Shape c{x[-1]};
  return {{x, -2, 3}, {c, -2, 2}, {c, -1, 1}, {c, -1, 1}, {c, 0.5, 2}};
}

std::vector<Operand> correction_operands(const Shape& v, double r_low, double r_high) {
  const Shape c{v[-1]};
  return {{v, -2, 3}, {c, -2, 2}, {c, -1, 1}, {c, r_low, r_high},
          {c, -1, 1}, {c, -1, 1}, {c, 0.5, 2}};
}

/// Returns a product with a batch norm folded into its weights; the node is labelled `name`.
std::function<NodeId(Graph&)> folded_net(const std::string& name) {
  return [name](Graph& graph) {
    const auto parameter = [&](const Shape& shape, double value, const std::string& label) {
      return graph.add(Parameter{.shape = shape, .initializer = init::Fill{value}}, {}, label);
    };
    const NodeId x = add_quantizer(graph, graph.add(Input{.shape = {4, 6}}, {}, "x"), ema, "x");
    const NodeId w =
        graph.add(Parameter{.shape = {5, 6}, .initializer = init::KaimingNormal{}}, {}, "w");
    const NodeId gamma = parameter({5}, -0.75, "gamma");
    const NodeId beta = parameter({5}, 0.3, "beta");
    const NodeId mean = graph.add(State{.shape = {5}, .value = 0.2}, {}, "mean");
    const NodeId variance = graph.add(State{.shape = {5}, .value = 1.7}, {}, "variance");
    const NodeId r = graph.add(FoldFactor{}, {gamma, variance}, "factor");
    const NodeId scaled = graph.add(Mul{}, {w, graph.add(Reshape{.shape = {5, 1}}, {r})});
    const NodeId weight = add_quantizer(graph, scaled, FakeQuantize{.axis = 0}, "w");
    const NodeId shift = graph.add(FoldBias{}, {beta, mean, r}, "shift");
    const NodeId bias = graph.add(FakeQuantizeBias{}, {shift, x, weight}, "bias");
    const NodeId product = graph.add(MatMul{.transpose_b = true}, {x, weight});
    const NodeId v = graph.add(AddBias{}, {product, bias});
    const NodeId y = graph.add(BatchNormCorrection{}, {v, gamma, beta, r, bias, mean, variance},
                               "corrected");
    graph.set_outputs({add_quantizer(graph, y, ema, "output")});
    return graph.at(name);
  };
}

/// Returns the types of x and of `parameters` operands [n].
std::vector<TensorType> norm_types(const TensorType& x, int parameters, int64_t n = 4) {
  std::vector<TensorType> all(static_cast<size_t>(parameters), {x.dtype, {n}});
  all.insert(all.begin(), x);
  return all;
}

/// Returns a net with a norm between quantizers, which has `parameters` operands beside x.
std::function<NodeId(Graph&)> normalized_net(const Op& op, const Shape& shape, int parameters) {
  return [=](Graph& graph) {
    const NodeId x = graph.add(Input{.shape = shape}, {}, "x");
    std::vector<NodeId> operands = {add_quantizer(graph, x, ema, "x")};
    for (const char* label :
         {"norm.gamma", "norm.beta", "norm.running_mean", "norm.running_var"}) {
      if (std::ssize(operands) > parameters) break;
      const bool state = std::ssize(operands) > 2;
      const Op leaf = state ? Op(State{.shape = {shape[-1]}}) : Parameter{.shape = {shape[-1]}};
      operands.push_back(graph.add(leaf, {}, label));
    }
    const NodeId y = graph.add(op, operands, "y");
    graph.set_outputs({add_quantizer(graph, y, ema, "output")});
    return y;
  };
}

OpCase batch_norm() {
  const BatchNorm plain;
  const BatchNorm other{.momentum = 0.5, .eps = 0.25};
  const Mode frozen{.train = true, .observe = true, .quantize = true};
  OpCase c{.value = normalized,
           .tolerance = {.value = 8, .gradient = 4},
           .integer = refused(
               "has no integer form: fold it into the product before it: qtape fold, or "
               "fold_batch_norm",
               normalized_net(plain, {4, 6}, 4))};
  refuse(c, norm_types(f32({2, 4}), 4),
         {{BatchNorm{.momentum = 1.5}, "momentum must be in [0, 1], got 1.5"},
          {BatchNorm{.eps = 0}, "eps must be above 0 and finite, got 0"}});
  refuse(c, plain,
         {{norm_types(f32({4}), 4), "x needs rank >= 2, got [4]"},
          {{f32({2, 4}), f32({3}), f32({4}), f32({4}), f32({4})},
           "gamma must be f32[4], one for each channel, got f32[3]"},
          {{f32({2, 4}), f32({4}), f32({4}), f32({4}), f64({4})},
           "running_var must be f32[4], one for each channel, got f64[4]"},
          {norm_types(s32({2, 4}), 4), "expected f32 or f64, got s32"}});
  for (const Shape& x :
       {Shape{5, 3}, Shape{2, 1}, Shape{7, 17}, Shape{3, 4, 5}, Shape{2, 3, 4, 6},
        Shape{2, 1, 3, 2, 5}, Shape{3, 65}, Shape{130, 2}, Shape{5, 200}}) {
    for (const Mode& mode : {mode::qat, mode::float_train, mode::eval, frozen}) {
      c.uses.push_back({plain, batch_norm_operands(x), mode});
    }
    c.uses.push_back({other, batch_norm_operands(x)});
  }
  for (const Shape& x : std::vector<Shape>{{0, 3}, {1, 3}, {4, 0}}) {
    c.uses.push_back({plain, batch_norm_operands(x), mode::eval});
  }
  c.uses.push_back({plain,
                    {{{9, 11}, -2, 2, Fill::Special},
                     {{11}, -3, 3, Fill::Integers},
                     {{11}, -3, 3, Fill::Integers},
                     {{11}},
                     {{11}, 0.5, 2}},
                    mode::float_eval});
  c.uses.push_back(
      {plain, {{{9, 3}}, {{3}, 0, 0, Fill::Integers}, {{3}}, {{3}}, {{3}, 0.5, 2}}});
  for (const Mode& mode : {mode::qat, mode::eval}) {
    c.large.push_back({plain, batch_norm_operands({300, 301}), mode});
    c.large.push_back({plain, batch_norm_operands({40, 40, 40, 3}), mode});
  }
  c.bench = {{plain, batch_norm_operands({32, 16, 16, 32})},
             {plain, batch_norm_operands({32, 16, 16, 32}), mode::eval}};
  return c;
}

OpCase correction() {
  const BatchNormCorrection plain;
  const BatchNormCorrection other{.momentum = 0.5, .eps = 0.25};
  OpCase c{.value = corrected,
           .tolerance = {.value = 32, .gradient = 4},
           .integer = converts(folded_net("corrected"))};
  refuse(c, plain,
         {{norm_types(f32({4}), 6), "v needs rank >= 2, got [4]"},
          {{f32({2, 4}), f32({4}), f32({4}), f32({4, 1}), f32({4}), f32({4}), f32({4})},
           "r must be f32[4], one for each channel, got f32[4, 1]"}});
  refuse(c, norm_types(f32({2, 4}), 6),
         {{BatchNormCorrection{.eps = -1}, "eps must be above 0 and finite, got -1"}});
  for (const Shape& v :
       std::vector<Shape>{{5, 3}, {7, 17}, {3, 4, 5}, {2, 3, 4, 6}, {130, 2}}) {
    c.uses.push_back({plain, correction_operands(v, 0.5, 2)});
    c.uses.push_back({plain, correction_operands(v, -2, -0.5), mode::float_train});
    c.uses.push_back({other, correction_operands(v, 0.25, 1)});
    c.uses.push_back({plain, correction_operands(v, -2, 2), mode::eval});
  }
  c.uses.push_back({plain, correction_operands({1, 3}, -2, 2), mode::eval});
  c.uses.push_back({plain, correction_operands({0, 3}, -2, 2), mode::float_eval});
  c.large = {{plain, correction_operands({300, 301}, 0.5, 2)}};
  c.bench = {{plain, correction_operands({32, 16, 16, 32}, 0.5, 2)}};
  return c;
}

/// Returns f(row) for each row of x.
Array by_row(const Array& x, const std::function<Values(const Values&)>& f) {
  const auto n = static_cast<size_t>(x.type.shape[-1]);
  Array y = x;
  for (size_t begin = 0; begin < y.values.size(); begin += n) {
    const auto first = x.values.begin() + static_cast<std::ptrdiff_t>(begin);
    const Values row = f(Values(first, first + static_cast<std::ptrdiff_t>(n)));
    std::ranges::copy(row, y.values.begin() + static_cast<std::ptrdiff_t>(begin));
  }
  return y;
}

/// Returns x and `parameters` operands [c]: factors and summands of channels.
std::vector<Operand> norm_operands(const Shape& x, int parameters, double low = -2) {
  std::vector<Operand> all = {{x, low, 3}};
  for (int i = 0; i < parameters; ++i) all.push_back({{x[-1]}});
  return all;
}

/// Returns an operand of special numbers and `parameters` operands [c] of integers.
std::vector<Operand> special_operands(const Shape& x, int parameters) {
  std::vector<Operand> all = {{x, -2, 2, Fill::Special}};
  for (int i = 0; i < parameters; ++i) all.push_back({{x[-1]}, -3, 3, Fill::Integers});
  return all;
}

/// Returns an entry of a norm X of the last axis with `parameters` operands; `normalize` gives
/// the numbers that these scale and shift.
template <class X>
OpCase row_norm(int parameters, double low, Tolerance tolerance,
                Values (*normalize)(Values row, double eps)) {
  const X plain;
  OpCase c{.tolerance = tolerance,
           .integer = converts(normalized_net(plain, {4, 6}, parameters))};
  c.value = [normalize](const OpUse& use, Arrays x) {
    return by_row(x[0], [&](const Values& row) {
      Values y = normalize(row, std::get<X>(use.op).eps);
      for (size_t k = 0; k < y.size(); ++k) {
        if (x.size() > 1) y[k] *= x[1].values[k];
        if (x.size() > 2) y[k] += x[2].values[k];
      }
      return y;
    });
  };
  for (const Shape& x : std::vector<Shape>{
           {5, 3}, {7, 17}, {3, 4, 5}, {2, 3, 2, 6}, {6}, {3, 65}, {70, 2}, {0, 3}, {3, 0}}) {
    c.uses.push_back({plain, norm_operands(x, parameters, low)});
  }
  c.uses.push_back({plain, special_operands({9, 11}, parameters)});
  c.large = {{plain, norm_operands({300, 301}, parameters)},
             {plain, norm_operands({30000, 3}, parameters)}};
  c.bench = {{plain, norm_operands({512, 256}, parameters)}};
  refuse(c, plain,
         {{norm_types(f32({}), parameters, 1), "x needs rank >= 1, got a scalar"},
          {norm_types(s32({2, 4}), parameters), "expected f32 or f64, got s32"}});
  refuse(c, norm_types(f32({2, 4}), parameters),
         {{X{.eps = 0}, "eps must be above 0 and finite, got 0"}});
  return c;
}

OpCase layer_norm() {
  OpCase c =
      row_norm<LayerNorm>(2, -2, {.value = 16, .gradient = 4}, [](Values row, double eps) {
        const double mean = mean_of(row);
        const double s = std::sqrt(variance_of(row) + eps);
        for (double& each : row) each = (each - mean) / s;
        return row;
      });
  c.uses.push_back({LayerNorm{.eps = 0.25}, norm_operands({4, 9}, 2)});
  refuse(c, LayerNorm{},
         {{{f32({2, 4}), f32({4}), f32({3})},
           "beta must be f32[4], one for each channel, got f32[3]"}});
  return c;
}

double sum_of_squares(const Values& values) {
  double sum = 0;
  for (double each : values) sum += each * each;
  return sum;
}

OpCase rms_norm() {
  OpCase c = row_norm<RmsNorm>(1, -2, {.value = 8, .gradient = 4}, [](Values row, double eps) {
    const double mean = sum_of_squares(row) / static_cast<double>(row.size());
    for (double& each : row) each /= std::sqrt(mean + eps);
    return row;
  });
  c.uses.push_back({RmsNorm{.eps = 0.25}, norm_operands({4, 9}, 1)});
  refuse(c, RmsNorm{},
         {{{f32({2, 4}), f32({3})}, "gamma must be f32[4], one for each channel, got f32[3]"}});
  return c;
}

OpCase l2_normalize() {
  OpCase c =
      row_norm<L2Normalize>(0, 0.5, {.value = 8, .gradient = 8}, [](Values row, double eps) {
        const double norm = std::sqrt(sum_of_squares(row));
        for (double& each : row) each /= norm < eps ? eps : norm;
        return row;
      });
  c.uses.push_back({L2Normalize{}, norm_operands({4, 9}, 0)});
  // Rows that are shorter than eps.
  c.uses.push_back({L2Normalize{.eps = 100}, norm_operands({4, 9}, 0)});
  return c;
}

/// Returns the group norm of x [n, ..., c].
Array group_normalized(const OpUse& use, Arrays x) {
  const auto& op = std::get<GroupNorm>(use.op);
  const auto channels = static_cast<size_t>(x[0].type.shape[-1]);
  const size_t width = channels / static_cast<size_t>(op.groups);
  const auto samples = static_cast<size_t>(x[0].type.shape[0]);
  const size_t sample = samples == 0 ? 0 : x[0].values.size() / samples;
  Array y = x[0];
  for (size_t n = 0; n < samples; ++n) {
    for (size_t first = 0; sample > 0 && first < channels; first += width) {
      const auto in_group = [&](size_t i) {
        return i % channels >= first && i % channels < first + width;
      };
      Values group;
      for (size_t i = n * sample; i < (n + 1) * sample; ++i) {
        if (in_group(i)) group.push_back(x[0].values[i]);
      }
      const double mean = mean_of(group);
      const double s = std::sqrt(variance_of(group) + op.eps);
      for (size_t i = n * sample; i < (n + 1) * sample; ++i) {
        if (!in_group(i)) continue;
        const double h = (x[0].values[i] - mean) / s;
        y.values[i] = x[1].values[i % channels] * h + x[2].values[i % channels];
      }
    }
  }
  return y;
}

OpCase group_norm() {
  const GroupNorm plain;
  const auto of = [](int64_t groups) { return GroupNorm{.groups = groups}; };
  const auto operands = [](const Shape& x) { return norm_operands(x, 2); };
  OpCase c{.value = group_normalized,
           .bench = {{of(8), operands({32, 16, 16, 32})}},
           .tolerance = {.value = 16, .gradient = 4},
           .integer = converts(normalized_net(of(2), {4, 3, 6}, 2))};
  refuse(c, plain,
         {{norm_types(f32({4}), 2), "x needs rank >= 2, got [4]"},
          {{f32({2, 4}), f32({4}), f32({3})},
           "beta must be f32[4], one for each channel, got f32[3]"},
          {norm_types(s32({2, 4}), 2), "expected f32 or f64, got s32"}});
  refuse(c, norm_types(f32({2, 4}), 2),
         {{of(3), "groups must be a divisor of the 4 channels, got 3"},
          {of(0), "groups must be a divisor of the 4 channels, got 0"},
          {GroupNorm{.eps = 0}, "eps must be above 0 and finite, got 0"}});
  refuse(c, {f32({2, 0}), f32({0}), f32({0})},
         {{of(2), "groups must be a divisor of the 0 channels, got 2"}});
  c.uses = {{plain, operands({5, 3})},
            {of(2), operands({7, 16})},
            {of(5), operands({3, 4, 5})},
            {of(3), operands({2, 3, 2, 6})},
            {plain, operands({2, 3, 4, 2, 3})},
            {of(13), operands({3, 9, 65})},
            {plain, operands({0, 3})},
            {plain, operands({3, 0})},
            {plain, operands({3, 0, 2})},
            {GroupNorm{.groups = 3, .eps = 0.25}, operands({4, 2, 9})},
            {of(2), special_operands({3, 5, 8}, 2)}};
  c.large = {{of(7), operands({30, 43, 70})}, {plain, operands({300, 90, 3})}};
  return c;
}

OpCase fold_factor() {
  const FoldFactor plain;
  const auto use = [](const Op& op, int64_t n) {
    return OpUse{op, {{{n}, -2, 2}, {{n}, 0.25, 2}}};
  };
  return {
      .value =
          [](const OpUse& each, Arrays x) {
            Array r = x[0];
            const double eps = std::get<FoldFactor>(each.op).eps;
            for (size_t c = 0; c < r.values.size(); ++c) {
              r.values[c] /= std::sqrt(x[1].values[c] + eps);
            }
            return r;
          },
      .uses = {use(plain, 1), use(plain, 37), use(FoldFactor{.eps = 0.5}, 5), use(plain, 0)},
      .bench = {use(plain, 512)},
      .tolerance = {.value = 2, .gradient = 2},
      .integer = converts(folded_net("factor")),
      .refusals = {{plain, {f32({2, 4}), f32({4})}, "gamma must be [c], got [2, 4]"},
                   {plain,
                    {f32({4}), f32({5})},
                    "running_var must be f32[4], one for each channel, got f32[5]"},
                   {FoldFactor{.eps = 0},
                    {f32({4}), f32({4})},
                    "eps must be above 0 and finite, got 0"}}};
}

OpCase fold_bias() {
  const FoldBias plain;
  const auto use = [&](int64_t n) { return OpUse{plain, {{{n}}, {{n}}, {{n}}}}; };
  return {
      .value =
          [](const OpUse&, Arrays x) {
            Array y = x[0];
            for (size_t c = 0; c < y.values.size(); ++c) {
              y.values[c] -= x[1].values[c] * x[2].values[c];
            }
            return y;
          },
      .uses = {use(1), use(37), use(0)},
      .bench = {use(512)},
      .tolerance = {.value = 1, .gradient = 1},
      .integer = converts(folded_net("shift")),
      .refusals = {{plain, {f32({2, 4}), f32({4}), f32({4})}, "beta must be [c], got [2, 4]"},
                   {plain,
                    {f32({4}), f32({4}), f32({3})},
                    "r must be f32[4], one for each channel, got f32[3]"}}};
}

}  // namespace

std::vector<OpCase> norm_cases() {
  return {batch_norm(),   layer_norm(),  group_norm(), rms_norm(),
          l2_normalize(), fold_factor(), fold_bias(),  correction()};
}

}  // namespace qtape::test
