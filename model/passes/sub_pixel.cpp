#include "qtape/model/passes/sub_pixel.h"

#include <algorithm>

#include "qtape/engine/constants.h"
#include "qtape/engine/labels.h"
#include "qtape/engine/quantizers.h"
#include "qtape/engine/rewrite.h"
#include "qtape/integer/rules/rule.h"
#include "qtape/integer/rules/rule_table.h"
#include "qtape/model/passes/float_parts.h"

namespace qtape {
namespace {

constexpr int64_t max_operands = 64;  // of Concat

/// An axis of a transposed convolution, as a convolution of phases.
struct PhaseAxis {
  int64_t taps = 1;  ///< of a phase
  int64_t phases = 1;
  int64_t pad_begin = 0;
  int64_t pad_end = 0;
  int64_t first = 0;    ///< first interleaved output that is kept
  int64_t extent = 1;   ///< outputs that are kept
  int64_t outputs = 1;  ///< of each phase
};

/// `reversed` is the axis of the convolution that the transposed one reverses.
PhaseAxis phase_axis(const WindowAxis& reversed) {
  const int64_t stride = reversed.stride;
  PhaseAxis axis{
      .taps = (reversed.span() - 1) / stride + 1, .phases = stride, .extent = reversed.in};
  axis.pad_begin = std::max<int64_t>(0, axis.taps - 1 - reversed.begin / stride);
  const int64_t start = axis.taps - 1 - axis.pad_begin;
  const int64_t last = (reversed.begin + reversed.in - 1) / stride;
  axis.pad_end = std::max<int64_t>(0, last - (reversed.out - 1));
  axis.outputs = reversed.out + axis.pad_begin + axis.pad_end - axis.taps + 1;
  axis.first = reversed.begin - stride * start;
  return axis;
}

/// A transposed convolution and the nodes after it that move before the interleaving.
struct Chain {
  NodeId product;
  std::vector<NodeId> following = {};

  NodeId last() const { return following.empty() ? product : following.back(); }
};

class SubPixelRewriter {
 public:
  explicit SubPixelRewriter(const Graph& graph)
      : graph_(graph),
        constant_(constant_nodes(graph)),
        replaceable_(replaceable_nodes(graph)),
        copies_(graph),
        readers_(constant_.size()) {
    for (const Node& node : graph.nodes()) {
      for (NodeId x : node.operands) readers_[at(x)].push_back(&node);
    }
    for (const NodeId id : ids(graph)) {
      if (is_candidate(id)) chains_.push_back({id, following(id)});
    }
  }

  SubPixelGraph run() {
    rewrite(graph_, result_.graph, [&](NodeId id, const std::vector<NodeId>& operands) {
      return copies_[id] = copy(id, operands);
    });
    for (const Chain& chain : chains_)
      result_.labels.push_back(name_near(graph_, named(chain)));
    return std::move(result_);
  }

 private:
  /// Returns the first node of a chain that has a label, which is that of the layer.
  NodeId named(const Chain& chain) const {
    NodeId found = chain.product;
    for (const NodeId id : chain.following) {
      if (graph_[found].label.empty()) found = id;
    }
    return found;
  }

  bool is_candidate(NodeId id) const {
    const auto* op = std::get_if<ConvTranspose2d>(&graph_[id].op);
    const bool known = op != nullptr && constant_[at(graph_[id].operands[1])];
    if (!known || !replaceable_[at(id)] || !has_phases(graph_[id].operands[1])) return false;
    const auto [h, w] = axes(id);
    return h.phases * w.phases <= max_operands && std::max(h.taps, w.taps) <= max_operands;
  }

  /// True unless filters have quantized codes that the filters of phases cannot have: those are
  /// quantized like these, by one scale or one for each output.
  bool has_phases(NodeId filters) const {
    if (!is_quantizer(graph_[filters].op)) return true;
    const ChannelMap map = channel_map(graph_, filters);
    const ChannelMap outputs(graph_[filters].type.shape, Granularity{0, std::nullopt});
    return map.channels == 1 || map == outputs;
  }

  std::pair<PhaseAxis, PhaseAxis> axes(NodeId id) const {
    const Node& node = graph_[id];
    const Window window =
        std::get<ConvTranspose2d>(node.op)
            .extents(graph_[node.operands[0]].type.shape, graph_[node.operands[1]].type.shape)
            .window;
    return {phase_axis(window.h), phase_axis(window.w)};
  }

  /// Returns the nodes after `id` that can be computed before the interleaving.
  std::vector<NodeId> following(NodeId id) const {
    std::vector<NodeId> found;
    for (int32_t i = id.index + 1; i < graph_.size(); ++i) {
      const NodeId last = found.empty() ? id : found.back();
      if (readers_[at(last)].size() != 1 || is_output(last)) break;
      const Node& node = graph_[NodeId{i}];
      if (readers_[at(last)][0] != &node) continue;
      const bool bias = found.empty() && std::holds_alternative<AddBias>(node.op) &&
                        node.operands[0] == last && constant_[at(bias_of(node.operands[1]))];
      const bool quantizes = is_quantizer(node.op) && node.operands[0] == last &&
                             channel_map(graph_, NodeId{i}).channels == 1;
      if (!bias && !quantizes && !is_pointwise(node.op)) break;
      found.push_back(NodeId{i});
      if (quantizes) break;
    }
    return found;
  }

  /// Returns the bias before it is rounded to the grid of accumulators.
  NodeId bias_of(NodeId id) const {
    return std::holds_alternative<FakeQuantizeBias>(graph_[id].op) ? graph_[id].operands[0]
                                                                   : id;
  }

  bool is_output(NodeId id) const { return std::ranges::count(graph_.outputs(), id) > 0; }

  NodeId copy(NodeId id, const std::vector<NodeId>& operands) {
    for (const Chain& chain : chains_) {
      if (chain.last() == id) return interleaved(chain);
      if (chain.product == id || std::ranges::count(chain.following, id) > 0) return {};
    }
    return result_.graph.add(graph_[id].op, operands, graph_[id].label);
  }

  NodeId add(Op op, std::vector<NodeId> operands, std::string label = {}) {
    return result_.graph.add(std::move(op), operands, std::move(label));
  }
  NodeId reshaped(NodeId x, std::vector<int64_t> shape) {
    return add(Reshape{.shape = std::move(shape)}, {x});
  }
  const Shape& shape(NodeId made) const { return result_.graph[made].type.shape; }

  NodeId interleaved(const Chain& chain) {
    const Node& node = graph_[chain.product];
    const auto& op = std::get<ConvTranspose2d>(node.op);
    const auto [h, w] = axes(chain.product);
    const int64_t count = h.phases * w.phases;
    const NodeId filters = quantized_filters(node.operands[1], op, h, w);
    NodeId y = add(Conv2d{.padding = Padding::Explicit,
                          .pads_begin = {h.pad_begin, w.pad_begin},
                          .pads_end = {h.pad_end, w.pad_end},
                          .groups = op.groups},
                   {copies_[node.operands[0]], filters});
    for (const NodeId id : chain.following) {
      std::vector<NodeId> operands = {y};
      if (std::holds_alternative<AddBias>(graph_[id].op)) {
        const NodeId bias = graph_[id].operands[1], values = bias_of(bias);
        operands.push_back(repeated(copies_[values], op.groups, count));
        if (values != bias) {
          const NodeId input = copies_[graph_[bias].operands[1]];
          operands[1] = add(FakeQuantizeBias{}, {operands[1], input, filters});
        }
      } else {
        const std::vector<NodeId>& own = graph_[id].operands;
        for (size_t k = 1; k < own.size(); ++k) operands.push_back(copies_[own[k]]);
      }
      y = add(graph_[id].op, operands);
    }
    return placed(y, op.groups, h, w, graph_[chain.last()].label);
  }

  /// Returns the filters of all phases, quantized as `filters` are.
  NodeId quantized_filters(NodeId filters, const ConvTranspose2d& op, const PhaseAxis& h,
                           const PhaseAxis& w) {
    const Node& node = graph_[filters];
    if (!is_quantizer(node.op)) return phase_filters(copies_[filters], op, h, w);
    std::vector<NodeId> operands = {phase_filters(copies_[node.operands[0]], op, h, w)};
    const bool one = channel_map(graph_, filters).channels == 1;
    for (size_t k = 1; k < node.operands.size(); ++k) {
      const NodeId state = copies_[node.operands[k]];
      operands.push_back(one ? state : repeated(state, op.groups, h.phases * w.phases));
    }
    return add(node.op, operands);
  }

  /// Returns filters [o, kh, kw, c] as those of all phases: [groups phases o / groups, taps,
  /// taps, c].
  NodeId phase_filters(NodeId filters, const ConvTranspose2d& op, const PhaseAxis& h,
                       const PhaseAxis& w) {
    const int64_t outputs = shape(filters)[0], channels = shape(filters)[3];
    filters = dilated(filters, op.dilation);
    filters = resized(filters, 1, h.taps * h.phases);
    filters = resized(filters, 2, w.taps * w.phases);
    filters = reshaped(filters, {op.groups, outputs / op.groups, h.taps, h.phases, w.taps,
                                 w.phases, channels});
    filters = reversed(reversed(filters, 2), 4);
    filters = add(Transpose{.permutation = {0, 3, 5, 1, 2, 4, 6}}, {filters});
    return reshaped(filters, {outputs * h.phases * w.phases, h.taps, w.taps, channels});
  }

  /// Returns the filters with zeros between their taps.
  NodeId dilated(NodeId filters, const Shape& dilation) {
    if (dilation[0] == 1 && dilation[1] == 1) return filters;
    const Shape own = shape(filters);
    NodeId spread = reshaped(filters, {own[0], own[1], 1, own[2], 1, own[3]});
    spread = add(
        Pad{.begin = {0, 0, 0, 0, 0, 0}, .end = {0, 0, dilation[0] - 1, 0, dilation[1] - 1, 0}},
        {spread});
    return reshaped(spread, {own[0], own[1] * dilation[0], own[2] * dilation[1], own[3]});
  }

  /// Returns the filters with `extent` taps along `axis`: zeros are added or removed.
  NodeId resized(NodeId filters, int axis, int64_t extent) {
    const int64_t own = shape(filters)[axis];
    if (own > extent) return add(Slice{.axis = axis, .end = extent}, {filters});
    if (own == extent) return filters;
    return add(Pad{.begin = {0, 0, 0, 0}, .end = Shape{0, 0, 0, 0}.with(axis, extent - own)},
               {filters});
  }

  NodeId reversed(NodeId x, int axis) {
    const int64_t extent = shape(x)[axis];
    if (extent == 1) return x;
    std::vector<NodeId> parts;
    for (int64_t i = extent - 1; i >= 0; --i) {
      parts.push_back(add(Slice{.axis = axis, .begin = i, .end = i + 1}, {x}));
    }
    return add(Concat{.axis = axis, .count = static_cast<int>(extent)}, parts);
  }

  /// Returns the bias [o] of all phases: [groups phases o / groups].
  NodeId repeated(NodeId bias, int64_t groups, int64_t count) {
    if (count == 1) return bias;
    const int64_t outputs = shape(bias)[0];
    const NodeId one = reshaped(bias, {groups, 1, outputs / groups});
    const std::vector<NodeId> parts(static_cast<size_t>(count), one);
    const NodeId all = add(Concat{.axis = 1, .count = static_cast<int>(count)}, parts);
    return reshaped(all, {outputs * count});
  }

  /// Interleaves the phases of y and removes what lies outside of the result.
  NodeId placed(NodeId y, int64_t groups, const PhaseAxis& h, const PhaseAxis& w,
                const std::string& label) {
    const int64_t outputs = shape(y)[3] / (h.phases * w.phases);
    if (h.phases * w.phases > 1) {
      y = reshaped(y, {-1, h.outputs, w.outputs, groups, h.phases, w.phases, outputs / groups});
      y = add(Transpose{.permutation = {0, 1, 4, 2, 5, 3, 6}}, {y});
    }
    const bool cut_h = h.outputs * h.phases != h.extent,
               cut_w = w.outputs * w.phases != w.extent;
    y = add(Reshape{.shape = {-1, h.outputs * h.phases, w.outputs * w.phases, outputs}}, {y},
            cut_h || cut_w ? "" : label);
    if (cut_h) {
      y = add(Slice{.axis = 1, .begin = h.first, .end = h.first + h.extent}, {y},
              cut_w ? "" : label);
    }
    if (!cut_w) return y;
    return add(Slice{.axis = 2, .begin = w.first, .end = w.first + w.extent}, {y}, label);
  }

  const Graph& graph_;
  std::vector<bool> constant_;
  std::vector<bool> replaceable_;
  NodeMap<NodeId> copies_;
  std::vector<std::vector<const Node*>> readers_;
  std::vector<Chain> chains_;
  SubPixelGraph result_;
};

}  // namespace

SubPixelGraph sub_pixel_convolutions(const Graph& graph) {
  return SubPixelRewriter(graph).run();
}

}  // namespace qtape
