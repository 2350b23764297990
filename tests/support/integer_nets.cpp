#include "qtape/tests/support/integer_nets.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "qtape/core/random.h"
#include "qtape/engine/quantizers.h"
#include "qtape/engine/tape.h"
#include "qtape/integer/program/integer_node.h"
#include "qtape/integer/program/session_hooks.h"
#include "qtape/model/layers.h"
#include "qtape/tests/support/net_draws.h"

namespace qtape::test {
namespace {

bool is_fixed(const Op& op) {
  const auto* quantize = std::get_if<FakeQuantize>(&op);
  return quantize != nullptr && std::holds_alternative<Fixed>(quantize->scale_mode);
}

void set_fixed(const Graph& graph, Parameters& parameters, NodeId id, const Random& random) {
  const Grid grid = grid_of(graph, id);
  const auto at = static_cast<uint64_t>(id.index);
  const auto span = static_cast<uint64_t>(int64_t{grid.limits.q_max} - grid.limits.q_min + 1);
  const double zero_point =
      grid.scheme == Scheme::Affine
          ? static_cast<double>(grid.limits.q_min) + static_cast<double>(random.below(at, span))
          : 0;
  set_qparams(graph, parameters, id, (0.5 + random.uniform(at)) * 8 / static_cast<double>(span),
              zero_point);
}

/// Returns the first difference when a batch is run at all levels.
std::string difference(const Graph& graph, Parameters& parameters, const VerifyOptions& options,
                       const SessionHooks& hooks, uint64_t seed) {
  Verifier verifier(graph, parameters, options, hooks);
  for (size_t i = 0; i < verifier.inputs().size(); ++i) fill_input(verifier, i, seed + i);
  verifier.run(options.batch);
  if (verifier.mismatches() == 0) return "";
  return fmt::format("{}: {}\n{}{}", to_string_view(options.convert.requantization),
                     mismatch(verifier), to_string(verifier.program()), verifier.report());
}

}  // namespace

void settle(const Graph& graph, Parameters& parameters, uint64_t seed) {
  const Random random(seed, 5);
  const auto fill = [&](const ParameterEntry& entry, double low, double high) {
    const auto values = entry.values<float>();
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<float>(low + (high - low) * random.uniform(i));
    }
  };
  for (const ParameterEntry& entry : parameters.entries()) {
    if (entry.name.ends_with(".bias")) fill(entry, -0.5, 0.5);
    if (entry.name.ends_with(".gamma")) fill(entry, -1, 1);
    if (entry.name.ends_with(".beta")) fill(entry, -0.5, 0.5);
    if (entry.name.ends_with(".running_mean")) fill(entry, -1, 1);
    if (entry.name.ends_with(".running_var")) fill(entry, 0.01, 2);
  }
  for (NodeId id : quantizers(graph)) {
    if (is_fixed(graph[id].op)) set_fixed(graph, parameters, id, random);
  }
  std::vector<NodeId> all;
  for (const NodeId id : ids(graph)) {
    if (!graph[id].operands.empty()) all.push_back(id);
  }
  Tape tape(graph, parameters, {.outputs = all, .threads = 1});
  for (const Node& node : graph.nodes()) {
    if (!std::holds_alternative<Input>(node.op)) continue;
    if (node.type.dtype == DType::S32) {
      std::ranges::fill(tape.input<int32_t>(node.label), 0);
      continue;
    }
    const auto x = tape.input<float>(node.label);
    for (size_t i = 0; i < x.size(); ++i) {
      x[i] = static_cast<float>(random.uniform(1000 + i) * 5 - 2);
    }
  }
  tape.forward(mode::observe);
  // For quantizers that have only seen zeros.
  for (NodeId id : quantizers(graph)) {
    const auto found = qparams(graph, parameters, id);
    if (!found.empty() && found[0].scale == 0) set_qparams(graph, parameters, id, 0x1p-4);
  }
}

void fill_wild(std::span<float> x, uint64_t seed) {
  constexpr float inf = std::numeric_limits<float>::infinity();
  const Random random(seed, 6);
  for (size_t i = 0; i < x.size(); ++i) {
    const double u = random.uniform(2 * i) - 0.5;
    switch (random.below(2 * i + 1, 16)) {
      case 0:
        x[i] = u < 0 ? -inf : inf;
        break;
      case 1:
        x[i] = static_cast<float>(u * 1e30);
        break;
      case 2:
        x[i] = u < 0 ? -0.0f : 0.0f;
        break;
      case 3:
        x[i] = static_cast<float>(u * 60);
        break;
      default:
        x[i] = static_cast<float>(u * 6);
    }
  }
}

void fill_indices(std::span<int32_t> x, int64_t most, uint64_t seed) {
  const Random random(seed, 7);
  uint64_t at = 0;
  for (int32_t& each : x) {
    each = static_cast<int32_t>(random.below(at++, static_cast<uint64_t>(most + 1)));
  }
}

void fill_input(Verifier& verifier, size_t which, uint64_t seed) {
  const IntegerValue& value = verifier.program()[verifier.inputs()[which]].value;
  if (value.type.dtype == DType::F32) return fill_wild(verifier.input(which), seed);
  fill_indices(verifier.input<int32_t>(which), value.high, seed);
}

std::string mismatch(const Verifier& verifier) {
  if (verifier.mismatches() == 0) return "";
  return fmt::format("{} mismatches, {}", verifier.mismatches(),
                     verifier.first_mismatch() ? to_string(*verifier.first_mismatch())
                                               : std::string("an output"));
}

bool all_exact_in_f32(const IntegerProgram& program) {
  return std::ranges::all_of(program.nodes(), [](const IntegerNode& node) {
    const QuantizedWeights* weights = weights_of(node.op);
    return weights == nullptr || weights->certificate.exact_in_f32();
  });
}

std::string disagreement(const Graph& graph, Parameters& parameters, uint64_t seed,
                         Effort effort, const std::vector<NodeId>& outputs) {
  const bool some = effort == Effort::Some;
  for (Requantization requantization : requantization::values) {
    VerifyOptions options{.convert = {.requantization = requantization, .outputs = outputs},
                          .batch = 9};
    const bool f32 = all_exact_in_f32(convert(graph, parameters, options.convert));
    const auto at = static_cast<uint64_t>(requantization);
    for (int threads : {1, 2}) {
      if (some && (seed + at) % 2 != static_cast<uint64_t>(threads - 1)) continue;
      for (const auto& path : {std::optional<ProductPath>(), std::optional(ProductPath::F32),
                               std::optional(ProductPath::Plain)}) {
        if (path == ProductPath::F32 && !f32) continue;
        if (some && path && (seed + at) % 4 != static_cast<uint64_t>(*path)) continue;
        options.threads = threads;
        std::string text = difference(graph, parameters, options, {.path = path}, seed + at);
        if (!text.empty()) return text;
      }
    }
  }
  return "";
}

namespace {

class RandomNet : NetDraws {
 public:
  explicit RandomNet(uint64_t seed) : NetDraws(seed, 11) {
    const int64_t width = 2 + below(9);
    const NodeId x = graph_.add(Input{.shape = {3, width}}, {}, "x");
    codes_ = {quantized(x)};
  }

  Graph run() {
    for (int64_t i = 3 + below(6); i > 0; --i) codes_.push_back(piece());
    NodeId last = codes_.back();
    const int64_t end = below(4);
    if (end > 0) last = layer(last);
    if (end > 1) last = limited(last);
    graph_.set_outputs({last, codes_.back()});
    return std::move(graph_);
  }

 private:
  int64_t width(NodeId id) const { return shape(id)[1]; }
  NodeId any() { return pick(codes_); }

  Op activation() {
    const EMA range{.track = Track::Range};
    const FakeQuantize affine{
        .range = CodeRange::Unsigned, .scheme = Scheme::Affine, .scale_mode = range};
    return pick<Op>(
        {affine, affine.with(&FakeQuantize::range, CodeRange::Full),
         affine.with(&FakeQuantize::bits, 4), affine.with(&FakeQuantize::bits, 9),
         affine.with(&FakeQuantize::bits, 16), affine.with(&FakeQuantize::scale_mode, Fixed{}),
         affine.with(&FakeQuantize::zero_point, ZeroPoint::BeforeRounding),
         FakeQuantize{.scale_mode = EMA{}},
         FakeQuantize{.range = CodeRange::Full,
                      .rounding = Rounding::HalfAway,
                      .division = Division::Reciprocal,
                      .scale_mode = EMA{}},
         FakeQuantize{.bits = 3, .rounding = Rounding::HalfUp, .scale_mode = range},
         FakeQuantize{.bits = 16, .scale_mode = EMA{}},
         FakeQuantize{.range = CodeRange::Unsigned, .scale_mode = Fixed{}}, FakeQuantizeLSQ{},
         FakeQuantizeLSQ{.range = CodeRange::Unsigned, .scheme = Scheme::Affine},
         FakeQuantizeLSQ{.bits = 12, .scheme = Scheme::Affine}, FakeQuantizePACT{},
         FakeQuantizePACT{.bits = 6, .range = CodeRange::Narrow}});
  }

  /// Returns a quantizer for weights whose outputs are the indices of `axis`.
  Op weight(int axis) {
    return pick<Op>({FakeQuantize{}, FakeQuantize{.axis = axis},
                     FakeQuantize{.axis = axis, .range = CodeRange::Full},
                     FakeQuantize{.bits = 4, .axis = axis},
                     FakeQuantize{.bits = 2, .scale_mode = EMA{}},
                     FakeQuantizeLSQ{.bits = 5, .axis = axis},
                     FakeQuantizePACT{.bits = 8, .range = CodeRange::Narrow}});
  }

  NodeId quantized(NodeId x) { return add_quantizer(graph_, x, activation(), name("q")); }

  NodeId layer(NodeId x) {
    const int64_t out = 1 + below(12);
    const bool bias = below(2) == 0;
    if (below(3) > 0) {
      LayerOptions options{
          .out = out, .weight_quantizer = weight(0), .bias = bias, .label = name("fc")};
      if (below(4) == 0) options.folded_norm = BatchNorm{};
      return linear(graph_, x, options);
    }
    const std::string label = name("columns");
    const NodeId w = graph_.add(
        Parameter{.shape = {width(x), out}, .initializer = init::KaimingNormal{}}, {}, label);
    return graph_.add(MatMul{}, {x, add_quantizer(graph_, w, weight(1), label)});
  }

  NodeId limited(NodeId x) {
    switch (below(3)) {
      case 0:
        return graph_.add(Relu{}, {x});
      case 1:
        return graph_.add(Clamp{.low = 0.01, .high = 1.5}, {x});
      default:
        return graph_.add(Clamp{.low = -0.4, .high = 6},
                          {graph_.add(Dropout{.rate = 0.2}, {x})});
    }
  }

  NodeId maybe_limited(NodeId x) { return below(2) == 0 ? limited(x) : x; }

  NodeId sum() {
    const NodeId a = any();
    std::vector<NodeId> fitting;
    for (NodeId id : codes_) {
      if (width(id) == width(a)) fitting.push_back(id);
    }
    return graph_.add(Add{}, {a, pick(fitting)});
  }

  NodeId join() {
    std::vector<NodeId> parts;
    for (int64_t i = 1 + below(3); i >= 0; --i) {
      const int64_t kind = below(3);
      const NodeId part = kind == 0 ? any() : kind == 1 ? layer(any()) : sum();
      parts.push_back(maybe_limited(part));
    }
    return graph_.add(Concat{.axis = 1, .count = static_cast<int>(parts.size())}, parts);
  }

  /// Reshapes x [batch, width] to [batch, a, b].
  NodeId folded(NodeId x) {
    const int64_t n = width(x);
    const int64_t a = n % 3 == 0 ? 3 : n % 2 == 0 ? 2 : 1;
    return graph_.add(Reshape{.shape = {-1, a, n / a}}, {x});
  }

  NodeId reduced() {
    const NodeId x = folded(any());
    const int axis = below(2) == 0 ? 1 : -1;
    switch (below(3)) {
      case 0:
        return graph_.add(Max{.axes = {axis}}, {x});
      case 1:
        return quantized(maybe_limited(graph_.add(Mean{.axes = {axis}}, {x})));
      default:
        return quantized(graph_.add(Sum{.axes = {axis}}, {x}));
    }
  }

  NodeId slice() {
    const NodeId x = any();
    const int64_t begin = below(width(x));
    return graph_.add(Slice{.axis = 1, .begin = begin}, {x});
  }

  NodeId piece() {
    switch (below(9)) {
      case 0:
        return quantized(maybe_limited(sum()));
      case 1:
        return quantized(maybe_limited(join()));
      case 2:
        return slice();
      case 3:
        return reduced();
      case 4:
        return graph_.add(Relu{}, {any()});
      case 5:
        return quantized(maybe_limited(any()));
      case 6:
        return graph_.add(Flatten{}, {graph_.add(StopGradient{}, {folded(any())})});
      default:
        return quantized(maybe_limited(layer(any())));
    }
  }

  std::vector<NodeId> codes_;
};

}  // namespace

Graph random_net(uint64_t seed) { return RandomNet(seed).run(); }

}  // namespace qtape::test
