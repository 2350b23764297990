// Nets of convolutions.
#include <algorithm>

#include "qtape/integer/rules/quantizer_of.h"
#include "qtape/tests/support/integer_nets.h"
#include "qtape/tests/support/net_draws.h"

namespace qtape::test {
namespace {

/// Nets of convolutions with all their features.
class ConvNet : NetDraws {
 public:
  explicit ConvNet(uint64_t seed) : NetDraws(seed, 21) {}

  Graph run() {
    const bool one = below(3) == 0;
    const int64_t channels = 1 + below(4);
    const Shape image =
        one ? Shape{3, 5 + below(8), channels} : Shape{3, 4 + below(4), 4 + below(4), channels};
    NodeId x = graph_.add(Input{.shape = image}, {}, "x");
    x = quantized(x);
    if (below(3) == 0) x = viewed(x, image);
    for (int64_t i = 1 + below(2); i >= 0; --i) {
      x = one ? conv1d(x) : conv2d(x);
      x = quantized(below(2) == 0 ? graph_.add(Relu{}, {x}) : x);
    }
    graph_.set_outputs({x});
    return std::move(graph_);
  }

 private:
  NodeId quantized(NodeId x) {
    const EMA range{.track = Track::Range};
    const FakeQuantize affine{
        .range = CodeRange::Unsigned, .scheme = Scheme::Affine, .scale_mode = range};
    const FakeQuantize op = pick<FakeQuantize>(
        {affine, affine.with(&FakeQuantize::range, CodeRange::Full),
         FakeQuantize{.scale_mode = EMA{}},
         affine.with(&FakeQuantize::bits, 4).with(&FakeQuantize::scale_mode, Fixed{}),
         FakeQuantize{.bits = 16, .scheme = Scheme::Affine, .scale_mode = range}});
    return add_quantizer(graph_, x, op, name("q"));
  }

  /// Returns a view of x with the extents of `shape`, with axis 1 and the last axis exchanged.
  NodeId viewed(NodeId x, const Shape& shape) {
    const NodeId flat = graph_.add(Flatten{}, {x});
    std::vector<int64_t> extents(shape.extents().begin(), shape.extents().end());
    extents[0] = -1;
    std::swap(extents[1], extents.back());
    return graph_.add(Reshape{.shape = extents}, {flat});
  }

  NodeId filters(const Shape& shape) {
    const std::string label = name("w");
    const Parameter parameter{.shape = shape, .initializer = init::KaimingNormal{}};
    const NodeId w = graph_.add(parameter, {}, label);
    const FakeQuantize op = pick<FakeQuantize>({{.axis = 0},
                                                {.range = CodeRange::Full},
                                                {.bits = 4, .axis = 0},
                                                {.bits = 2, .axis = 0}});
    return add_quantizer(graph_, w, op, label);
  }

  /// Returns the outputs of each group; sometimes more than fit one vector, unless there are
  /// many groups: products of products would take minutes.
  int64_t outputs(int64_t groups) {
    const bool many = below(5) == 0 && groups <= 64;
    return many ? 15 + below(40) : 1 + below(3);
  }

  int64_t groups_of(int64_t channels) {
    const int64_t kind = below(3);
    if (kind == 0) return channels;
    return kind == 1 && channels % 2 == 0 ? 2 : 1;
  }

  NodeId biased(NodeId product) {
    if (below(3) == 0) return product;
    const Node node = graph_[product];
    NodeId bias =
        graph_.add(Parameter{.shape = {node.type.shape[-1]}}, {}, name("b") + ".bias");
    if (below(2) == 0) {
      const NodeId x = *preceding_quantizer(graph_, node.operands[0]);
      bias = graph_.add(FakeQuantizeBias{}, {bias, x, node.operands[1]});
    }
    return graph_.add(AddBias{}, {product, bias});
  }

  struct Axis {
    int64_t kernel, stride, dilation, begin, end;
  };
  /// The padding can be larger than the kernel.
  Axis axis(int64_t in, Padding padding) {
    Axis a{1 + below(std::min<int64_t>(3, in)), 1 + below(2), 1, 0, 0};
    if (padding != Padding::Valid) a.dilation = 1 + below(2);
    if (padding == Padding::Explicit) {
      a.begin = below(4);
      a.end = 4 - below(2);
    }
    return a;
  }
  Padding padding() {
    return pick<Padding>({Padding::Valid, Padding::Same, Padding::Explicit});
  }

  NodeId conv2d(NodeId x) {
    const Shape in = shape(x);
    const Padding kind = padding();
    const Axis h = axis(in[1], kind);
    const Axis w = axis(in[2], kind);
    const int64_t groups = groups_of(in[3]);
    const Conv2d op{.stride = {h.stride, w.stride},
                    .padding = kind,
                    .pads_begin = {h.begin, w.begin},
                    .pads_end = {h.end, w.end},
                    .dilation = {h.dilation, w.dilation},
                    .groups = groups};
    const Shape f{groups * outputs(groups), h.kernel, w.kernel, in[3] / groups};
    return biased(graph_.add(op, {x, filters(f)}, name("conv")));
  }

  NodeId conv1d(NodeId x) {
    const Shape in = shape(x);
    const Padding kind = padding();
    const Axis l = axis(in[1], kind);
    const int64_t groups = groups_of(in[2]);
    const Conv1d op{.stride = l.stride,
                    .padding = kind,
                    .pad_begin = l.begin,
                    .pad_end = l.end,
                    .dilation = l.dilation,
                    .groups = groups};
    const Shape f{groups * outputs(groups), l.kernel, in[2] / groups};
    return biased(graph_.add(op, {x, filters(f)}, name("conv")));
  }
};

}  // namespace

Graph conv_net(uint64_t seed) { return ConvNet(seed).run(); }

}  // namespace qtape::test
