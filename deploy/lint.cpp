#include "qtape/deploy/lint.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "qtape/core/float_environment.h"
#include "qtape/core/printable.h"
#include "qtape/deploy/checks.h"
#include "qtape/deploy/lint_text.h"
#include "qtape/deploy/weights.h"
#include "qtape/engine/quantizers.h"
#include "qtape/integer/program/integer_node.h"
#include "qtape/integer/rules/lowering.h"
#include "qtape/kernels/quantize/quantize.h"
#include "qtape/kernels/quantize/requantize.h"

namespace qtape {

using namespace kernels;
namespace {

bool at_floor(double scale, const Grid& grid) {
  return static_cast<float>(scale) <= static_cast<float>(grid.floor);
}

/// Weights of a layer, and the scales that evaluation uses.
struct WeightValues {
  std::span<const float> values;
  std::vector<QParams<double>> qparams;
  WeightLayout layout;

  float at(int64_t c, int64_t i) const { return values[static_cast<size_t>(layout.at(c, i))]; }
  double scale(int64_t c) const {
    return qparams[qparams.size() == 1 ? 0 : static_cast<size_t>(c)].scale;
  }
};

/// Statistics of one output channel.
struct WeightChannel {
  int64_t non_finite = 0;
  int64_t nonzero = 0;  ///< number of nonzero codes
  bool empty = true;    ///< all weights are 0
  int64_t clamped = 0;  ///< number that lie a step or more beyond the end of the grid
};

WeightChannel look_at(const WeightValues& w, int64_t c, const Grid& grid) {
  WeightChannel channel;
  const QParams<float> q{static_cast<float>(w.scale(c)), 0.0f};
  for (int64_t i = 0; i < w.layout.terms; ++i) {
    const float value = w.at(c, i);
    const float steps = value / q.scale;
    channel.non_finite += std::isfinite(value) ? 0 : 1;
    channel.empty = channel.empty && value == 0;
    channel.nonzero += code_of(value, q, grid) != 0.0f ? 1 : 0;
    const bool beyond = steps >= static_cast<float>(grid.limits.q_max) + 1 ||
                        steps <= static_cast<float>(grid.limits.q_min) - 1;
    channel.clamped += beyond ? 1 : 0;
  }
  return channel;
}

class Linter {
 public:
  Linter(const Graph& graph, const Parameters& parameters, const LintOptions& options)
      : graph_(graph), parameters_(parameters), options_(options), lowered_(lower(graph)) {
    if (options_.outputs.empty()) {
      options_.outputs = graph.answers();
      check(!options_.outputs.empty(), "the graph names no outputs");
    }
    for (NodeId id : options_.outputs) (void)graph[id];
  }

  std::vector<Finding> run() {
    if (quantizers(graph_).empty()) {
      return {{Severity::Error, "model", "has no quantizers",
               "train it with them, or insert and calibrate them"}};
    }
    const std::vector<bool> needed = needed_for(graph_, options_.outputs);
    look_at_weights(needed);
    for (const NodeId id : ids(graph_)) {
      if (needed[at(id)]) node(id);
    }
    if (!any_error()) outputs();
    if (!any_error()) integers();
    std::ranges::stable_sort(findings_, {}, &Finding::severity);
    return std::move(findings_);
  }

 private:
  const IntegerForm& form(NodeId id) const { return lowered_[id]; }
  bool any_error() const {
    return std::ranges::count(findings_, Severity::Error, &Finding::severity) > 0;
  }
  std::string name(NodeId id) const {
    return graph_[id].label.empty() ? graph_.describe(id) : printable(graph_[id].label);
  }
  void add(Severity severity, NodeId id, std::string what, std::string remedy) {
    findings_.push_back({severity, name(id), std::move(what), std::move(remedy)});
  }

  void add(Severity severity, NodeId id, const Verdict& verdict) {
    if (!verdict.reason.empty()) add(severity, id, verdict.reason, verdict.remedy);
  }

  void node(NodeId id) {
    const IntegerForm& own = form(id);
    if (!lowered_.analysis.refusal(id).reason.empty()) {
      return add(Severity::Error, id, lowered_.analysis.refusal(id));
    }
    add(Severity::Error, own.source == id && own.bias.index >= 0 ? own.bias : id,
        check_numbers(graph_, parameters_, lowered_.analysis, id));
    if (const auto b = biases_.find(id); b != biases_.end()) {
      add(Severity::Error, id, b->second.wrong);
    }
    if (own.kind == IntegerKind::Codes && own.quantizer == id) floor_of(id);
    if (const auto* pad = std::get_if<Pad>(&graph_[id].op)) border(*pad, id);
    if (own.product == id && own.kind == IntegerKind::Accumulators) weights(id);
  }

  /// Compares the value of a border with that of its code.
  void border(const Pad& pad, NodeId id) {
    const IntegerForm& own = form(id);
    if (pad.value == 0 || own.kind != IntegerKind::Codes || is_below_maxima(graph_, id)) return;
    const auto found = qparams(graph_, parameters_, own.quantizer);
    if (found.size() != 1 || !are_scales(found[0].scale, 1)) return;
    const QParams<float> q{static_cast<float>(found[0].scale),
                           static_cast<float>(found[0].zero_point)};
    const auto value = static_cast<float>(pad.value);
    const float held = value_of(code_of(value, q, grid_of(graph_, own.quantizer)), q);
    if (std::abs(held - value) <= q.scale / 2) return;
    add(Severity::Warning, id,
        fmt::format("its border of {} becomes {}, the nearest value that has a code", value,
                    held),
        has_far_border(pad)
            ? "pad with a number that values of the data reach"
            : "add the value after a border of 0, y = Pad(x - value) + value, and quantize y");
  }

  void floor_of(NodeId id) {
    const auto found = qparams(graph_, parameters_, id);
    const Grid grid = grid_of(graph_, id);
    if (saw_zeros_alone(graph_, parameters_, id)) {
      add(Severity::Note, id, "observed only 0, so its largest value is 1",
          "calibrate it with data that reach it, unless it is always 0");
    }
    if (found.empty() || found[0].scale == 0 || !at_floor(found[0].scale, grid)) return;
    add(Severity::Warning, id,
        fmt::format("scale {:.3g} is not above its floor {:.3g}: it observed almost only 0",
                    found[0].scale, grid.floor),
        "find the cause, then calibrate it again");
  }

  /// Returns `2 of 3 scales were never set`, or the contents of the first state that holds
  /// something else.
  std::string unset_text(NodeId quantizer, const std::vector<QParams<double>>& found) const {
    const auto unset = std::ranges::count(found, 0.0, &QParams<double>::scale);
    for (size_t c = 0; c < found.size(); ++c) {
      if (found[c].scale != 0) continue;
      const auto channel = static_cast<int64_t>(c);
      const std::string text = missing_scale(graph_, parameters_, quantizer, channel);
      if (text == never_observed) continue;
      return fmt::format("{} of {} channels have no scale; in channel {}, {}", unset,
                         found.size(), channel, text);
    }
    return fmt::format("{} of {} scales were never set", unset, found.size());
  }

  /// Checks that the scales of weights are available; adds an error otherwise.
  bool weight_scales(NodeId quantizer) {
    const auto found = qparams(graph_, parameters_, quantizer);
    const auto unseen = std::ranges::count(found, 0.0, &QParams<double>::scale);
    const auto all = static_cast<int64_t>(found.size());
    // Running ranges leave the scale of an all-zero channel at 0, which is not a fault.
    if (unseen > 0 && (faulted_.contains(quantizer) || unseen == all)) {
      add(Severity::Error, quantizer, unset_text(quantizer, found), "train or calibrate first");
      return false;
    }
    for (const QParams<double>& q : found) {
      if (q.scale == 0 || are_scales(q.scale, 1)) continue;
      add(Severity::Error, quantizer,
          fmt::format("scales must be positive normal f32, got {}", q.scale),
          "calibrate it again");
      return false;
    }
    return true;
  }

  /// Collects the findings about the weights of all products, for `node` to add in order.
  void look_at_weights(const std::vector<bool>& needed) {
    std::map<NodeId, WeightLayout> layouts;  // by quantizer
    std::set<NodeId> wanted;
    for (const NodeId id : ids(graph_)) {
      const auto& factors = lowered_.op(id).weights;
      if (!needed[at(id)] || !factors) continue;
      layouts.emplace(factors->quantizer, factors->layout);
      wanted.insert(factors->quantizer);
    }
    const auto visit = [&](NodeId id, const WeightView& view) {
      const auto layout = layouts.find(id);
      if (layout == layouts.end()) return;
      weights(id, layout->second, view);
      of_weights_[id] = std::exchange(findings_, {});
    };
    biases_ = visit_constants(graph_, parameters_, lowered_.analysis, needed, wanted, visit);
  }

  void weights(NodeId quantizer, const WeightLayout& layout, const WeightView& view) {
    if (!view.fault.empty()) {
      faulted_.insert(quantizer);
      return add(Severity::Error, quantizer, check_weights({}, view.fault));
    }
    weights(quantizer, {.values = view.raw, .qparams = view.qparams, .layout = layout});
  }

  void weights(NodeId product) {
    const NodeId quantizer = lowered_.op(product).weights->quantizer;
    const auto found = of_weights_.extract(quantizer);
    if (found.empty() || !weight_scales(quantizer)) return;
    std::ranges::move(found.mapped(), std::back_inserter(findings_));
  }

  /// Adds a finding of channels of weights; none if there are no channels.
  void add_channels(Severity severity, NodeId quantizer, const WeightValues& w,
                    const std::vector<int64_t>& channels, std::string_view what,
                    std::string remedy) {
    if (channels.empty()) return;
    add(severity, quantizer,
        fmt::format("{} {} {}", channels_text(channels, w.layout.outputs),
                    channels.size() == 1 ? "has" : "have", what),
        std::move(remedy));
  }

  /// Reports channels of weights beyond the codes, at most `most` of them in one.
  void report_clamped(NodeId quantizer, const WeightValues& w,
                      const std::vector<int64_t>& channels, int64_t most) {
    const Grid grid = grid_of(graph_, quantizer);
    const double share = 100 * double(most) / double(std::max<int64_t>(w.layout.terms, 1));
    // Learned scales clip where that lowers the loss.
    const bool learned = !trained_scales(graph_, quantizer).empty();
    add_channels(learned ? Severity::Note : Severity::Warning, quantizer, w, channels,
                 fmt::format("up to {:.3g} % of the weights outside the codes {}..{}", share,
                             grid.limits.q_min, grid.limits.q_max),
                 learned ? "none needed for a learned scale; otherwise calibrate it again"
                         : "calibrate the scale again, or train it longer");
  }

  void weights(NodeId quantizer, const WeightValues& w) {
    const Grid grid = grid_of(graph_, quantizer);
    std::vector<int64_t> broken, empty, dead, low, clamped;
    int64_t most = 0;
    for (int64_t c = 0; c < w.layout.outputs; ++c) {
      const WeightChannel channel = look_at(w, c, grid);
      if (channel.non_finite > 0)
        broken.push_back(c);
      else if (channel.nonzero == 0)
        (channel.empty ? empty : dead).push_back(c);
      else if (at_floor(w.scale(c), grid))
        low.push_back(c);
      if (static_cast<double>(channel.clamped) >
          options_.clamped_share * double(w.layout.terms)) {
        clamped.push_back(c);
        most = std::max(most, channel.clamped);
      }
    }
    const auto report = [&](Severity severity, const std::vector<int64_t>& channels,
                            std::string_view what, std::string remedy) {
      add_channels(severity, quantizer, w, channels, what, std::move(remedy));
    };
    report(Severity::Error, broken, "weights that are NaN or infinite",
           "retrain from a checkpoint in which all weights are finite");
    report(Severity::Note, empty, "no weight other than 0",
           "remove them, unless the rewriting of a layer made them");
    report(Severity::Warning, dead, "only the code 0",
           "remove them, or give each channel its own scale");
    report(Severity::Warning, low, fmt::format("a scale at its floor of {}", grid.floor),
           "lower the floor, or remove them");
    report_clamped(quantizer, w, clamped, most);
  }

  void outputs() {
    for (NodeId id : options_.outputs) add(Severity::Error, id, check_output(form(id), false));
  }

  /// Adds the findings that only the integer program shows; there must be no errors.
  void integers() {
    try {
      const Conversion made =
          convert_traced(graph_, parameters_, {.outputs = options_.outputs});
      for (const Conversion::Pair& pair : made.pairs) rounded_bias(made.program, pair);
      const std::vector<Finding> more = lint(made.program);
      findings_.insert(findings_.end(), more.begin(), more.end());
    } catch (const Error& error) {
      findings_.push_back(
          {Severity::Error, "model", error.what(), "change that part of the graph"});
    }
  }

  void rounded_bias(const IntegerProgram& program, const Conversion::Pair& pair) {
    const NodeId leaf = form(pair.graph).bias;
    // If the added operand is not the leaf, training has already rounded the bias.
    if (leaf.index < 0 || graph_[pair.graph].operands[1] != leaf) return;
    const IntegerNode& layer = program[pair.program];
    const auto* codes =
        reinterpret_cast<const int32_t*>(weights_of(layer.op)->bias.data.data());
    const auto values = bias_values(graph_, parameters_, biases_, leaf);
    int64_t changed = 0;
    double change = 0;
    double largest = 0;
    for (size_t c = 0; c < values.size(); ++c) {
      const double scale = layer.value.scales[layer.value.scales.size() == 1 ? 0 : c];
      if (std::abs(int64_t{codes[c]}) >= Certificate::s32_limit) continue;
      const double distance = std::abs(codes[c] * scale - double{values[c]});
      largest = std::max(largest, std::abs(double{values[c]}));
      change = std::max(change, distance);
      changed += distance > 0 ? 1 : 0;
    }
    if (changed == 0) return;
    add(change > options_.bias_change * largest ? Severity::Warning : Severity::Note, leaf,
        fmt::format(
            "{} of {} biases change when they are rounded to the grid of the accumulators, by "
            "up to {:.2g} % of the largest one",
            changed, values.size(), 100 * change / largest),
        "apply FakeQuantizeBias to it in training, or train in exact arithmetic");
  }

  const Graph& graph_;
  const Parameters& parameters_;
  LintOptions options_;
  Lowered lowered_;
  std::vector<Finding> findings_;
  std::map<NodeId, std::vector<Finding>> of_weights_;
  std::set<NodeId> faulted_;  // quantizers of weights without values
  ComputedBiases biases_;
};

}  // namespace

std::string to_string(const Finding& finding) {
  return fmt::format("{}: {}: {}; {}", to_string_view(finding.severity), finding.node,
                     finding.what, finding.remedy);
}

std::vector<Finding> lint(const Graph& graph, const Parameters& parameters,
                          const LintOptions& options) {
  const FloatEnvironment floats;
  require<ArgumentError>(options.clamped_share >= 0 && options.clamped_share <= 1,
                         "clamped_share must be in 0..1, got {}", options.clamped_share);
  require<ArgumentError>(options.bias_change >= 0, "bias_change must be at least 0, got {}",
                         options.bias_change);
  return Linter(graph, parameters, options).run();
}

}  // namespace qtape
