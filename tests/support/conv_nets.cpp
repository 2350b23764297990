// Nets of convolutions.
#include <fmt/format.h>

#include <algorithm>

#include "qtape/core/random.h"
#include "qtape/engine/quantizers.h"
#include "qtape/integer/rules/quantizer_of.h"
#include "qtape/model/passes/insert_quantizers.h"
#include "qtape/tests/support/integer_nets.h"

namespace qtape::test {
namespace {

/// Nets of convolutions with all their features.
class ConvNet {
 public:
  explicit ConvNet(uint64_t seed) : random_(seed, 21) {}

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
  int64_t below(int64_t n) {
    return static_cast<int64_t>(random_.below(draws_++, static_cast<uint64_t>(n)));
  }
  std::string name(const char* kind) { return fmt::format("{}{}", kind, names_++); }

  NodeId quantized(NodeId x) {
    const FakeQuantize kinds[] = {
        {.range = CodeRange::Unsigned,
         .scheme = Scheme::Affine,
         .scale_mode = EMA{.track = Track::Range}},
        {.range = CodeRange::Full,
         .scheme = Scheme::Affine,
         .scale_mode = EMA{.track = Track::Range}},
        {.range = CodeRange::Narrow, .scale_mode = EMA{}},
        {.bits = 4,
         .range = CodeRange::Unsigned,
         .scheme = Scheme::Affine,
         .scale_mode = Fixed{}},
        {.bits = 16, .scheme = Scheme::Affine, .scale_mode = EMA{.track = Track::Range}}};
    return add_quantizer(graph_, x, kinds[below(5)], name("q"));
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
    const FakeQuantize kinds[] = {{.axis = 0},
                                  {.range = CodeRange::Full},
                                  {.bits = 4, .axis = 0},
                                  {.bits = 2, .axis = 0}};
    return add_quantizer(graph_, graph_.add(parameter, {}, label), kinds[below(4)], label);
  }

  /// Returns the outputs per group; sometimes more than fit one vector.
  int64_t outputs() { return below(5) == 0 ? 15 + below(40) : 1 + below(3); }

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
    const Padding all[] = {Padding::Valid, Padding::Same, Padding::Explicit};
    return all[below(3)];
  }

  NodeId conv2d(NodeId x) {
    const Shape shape = graph_[x].type.shape;
    const Padding kind = padding();
    const Axis h = axis(shape[1], kind);
    const Axis w = axis(shape[2], kind);
    const int64_t groups = groups_of(shape[3]);
    const Conv2d op{.stride = {h.stride, w.stride},
                    .padding = kind,
                    .pads_begin = {h.begin, w.begin},
                    .pads_end = {h.end, w.end},
                    .dilation = {h.dilation, w.dilation},
                    .groups = groups};
    const Shape f{groups * outputs(), h.kernel, w.kernel, shape[3] / groups};
    return biased(graph_.add(op, {x, filters(f)}, name("conv")));
  }

  NodeId conv1d(NodeId x) {
    const Shape shape = graph_[x].type.shape;
    const Padding kind = padding();
    const Axis l = axis(shape[1], kind);
    const int64_t groups = groups_of(shape[2]);
    const Conv1d op{.stride = l.stride,
                    .padding = kind,
                    .pad_begin = l.begin,
                    .pad_end = l.end,
                    .dilation = l.dilation,
                    .groups = groups};
    const Shape f{groups * outputs(), l.kernel, shape[2] / groups};
    return biased(graph_.add(op, {x, filters(f)}, name("conv")));
  }

  Random random_;
  uint64_t draws_ = 0;
  int names_ = 0;
  Graph graph_;
};

}  // namespace

Graph conv_net(uint64_t seed) { return ConvNet(seed).run(); }

}  // namespace qtape::test
