// Nets of ops over axes: moves, resizing, pools, rows of tables, norms, pairs of broadcast
// shapes, products of matrices and functions.
#include <algorithm>
#include <numeric>

#include "qtape/tests/support/integer_nets.h"
#include "qtape/tests/support/net_draws.h"

namespace qtape::test {
namespace {

class AxesNet : NetDraws {
 public:
  explicit AxesNet(uint64_t seed) : NetDraws(seed, 22) {}

  Graph run() {
    const Shape shape = below(3) == 0 ? Shape{2, 2 + below(5), 1 + below(6)}
                                      : Shape{2, 2 + below(4), 2 + below(4), 1 + below(6)};
    NodeId x = quantized(graph_.add(Input{.shape = shape}, {}, "x"));
    for (int64_t i = 2 + below(4); i > 0; --i) {
      x = step(x);
      if (elements(x) > 4000) break;
    }
    graph_.set_outputs({x});
    return std::move(graph_);
  }

 private:
  int64_t elements(NodeId x) const { return shape(x).elements(); }

  NodeId quantized(NodeId x) {
    const EMA range{.track = Track::Range};
    const FakeQuantize affine{
        .range = CodeRange::Unsigned, .scheme = Scheme::Affine, .scale_mode = range};
    const FakeQuantize op = pick<FakeQuantize>(
        {affine, affine.with(&FakeQuantize::range, CodeRange::Full),
         FakeQuantize{.scale_mode = EMA{}}, affine.with(&FakeQuantize::bits, 4),
         FakeQuantize{.bits = 16, .scheme = Scheme::Affine, .scale_mode = range}});
    return add_quantizer(graph_, x, op, name("q"));
  }
  NodeId quantized(const Op& op, std::initializer_list<NodeId> operands) {
    return quantized(graph_.add(op, operands));
  }
  NodeId parameter(const Shape& shape, const char* role) {
    return graph_.add(Parameter{.shape = shape, .initializer = init::Fill{1}}, {},
                      name("p") + role);
  }
  NodeId constant(const Shape& shape) {
    std::vector<float> values(static_cast<size_t>(shape.elements()));
    std::ranges::generate(values, [&] { return static_cast<float>(between(-1, 2)); });
    return graph_.add(Constant{.value = Tensor::of<float>(shape, values)}, {}, name("c"));
  }

  /// Returns the index of an axis other than the batch.
  int axis(NodeId x) { return 1 + static_cast<int>(below(shape(x).rank() - 1)); }

  NodeId step(NodeId x) {
    switch (below(10)) {
      case 0:
      case 1:
        return moved(x);
      case 2:
        return resized(x);
      case 3:
        return normalized(x);
      case 4:
        return function(x);
      case 6:
        return pooled(x);
      case 7:
        return looked_up(x);
      case 8:
        return multiplied(x);
      default:
        return paired(x);
    }
  }

  NodeId moved(NodeId x) {
    const int along = axis(x);
    const int64_t n = shape(x)[along];
    switch (below(5)) {
      case 0:
        return gathered(x, along);
      case 1:
        return transposed(x);
      case 2: {
        const int64_t begin = below(n);
        return graph_.add(
            Slice{.axis = along, .begin = begin, .end = begin + 1 + below(n - begin)}, {x});
      }
      case 3:
        return quantized(Concat{.axis = along, .count = 2}, {x, gathered(x, along)});
      default:
        return quantized(padded(x));
    }
  }

  NodeId gathered(NodeId x, int along) {
    Gather op{.axis = along};
    for (int64_t i = 1 + below(6); i > 0; --i) op.indices.push_back(below(shape(x)[along]));
    return graph_.add(op, {x});
  }

  NodeId transposed(NodeId x) {
    std::vector<int> axes(static_cast<size_t>(shape(x).rank()));
    std::iota(axes.begin(), axes.end(), 0);
    for (size_t i = axes.size() - 1; i > 1; --i) {
      std::swap(axes[i], axes[1 + static_cast<size_t>(below(static_cast<int64_t>(i)))]);
    }
    return graph_.add(Transpose{.permutation = axes}, {x});
  }

  NodeId padded(NodeId x) {
    std::vector<int64_t> begin(static_cast<size_t>(shape(x).rank()));
    std::vector<int64_t> end = begin;
    for (size_t i = 1; i < begin.size(); ++i) {
      begin[i] = below(3);
      end[i] = below(3);
    }
    return graph_.add(Pad{.begin = Shape(begin), .end = Shape(end)}, {x});
  }

  NodeId resized(NodeId x) {
    Interpolate op;
    for (int k = 1; k + 1 < shape(x).rank(); ++k) {
      op.extents.push_back(1 + below(2 * shape(x)[k]));
      op.step.push_back(below(7));
      op.divisor.push_back(1 + below(6));
      op.offset.push_back(below(9) - 4);
    }
    return quantized(op, {x});
  }

  NodeId pooled(NodeId x) {
    std::vector<int64_t> kernel, stride;
    for (int k = 1; k + 1 < shape(x).rank(); ++k) {
      kernel.push_back(1 + below(3));
      stride.push_back(1 + below(2));
    }
    switch (below(3)) {
      case 0:
        return graph_.add(
            MaxPool{.kernel = Shape(kernel), .stride = Shape(stride), .padding = Padding::Same},
            {x});
      case 1:
        return quantized(AvgPool{.kernel = Shape(kernel),
                                 .stride = Shape(stride),
                                 .padding = Padding::Same,
                                 .count_include_pad = below(2) == 0},
                         {x});
      default:
        return graph_.add(Upsample{.factor = Shape(stride)}, {x});
    }
  }

  /// Returns rows of a table, one for each index of the largest element along an axis.
  NodeId looked_up(NodeId x) {
    const int along = axis(x);
    const Shape table{shape(x)[along] + below(3), 1 + below(6)};
    const NodeId best = graph_.add(ArgMax{.axis = along}, {x});
    return graph_.add(Embedding{}, {quantized(constant(table)), best});
  }

  NodeId normalized(NodeId x) {
    const Shape channels{shape(x)[-1]};
    const auto gamma = [&] { return parameter(channels, ".gamma"); };
    const auto beta = [&] { return parameter(channels, ".beta"); };
    const double eps = below(2) == 0 ? 1e-5 : 0.1;
    switch (below(4)) {
      case 0:
        return quantized(LayerNorm{.eps = eps}, {x, gamma(), beta()});
      case 1:
        return quantized(RmsNorm{.eps = eps}, {x, gamma()});
      case 2:
        return quantized(L2Normalize{.eps = eps}, {x});
      default: {
        const int64_t groups = channels[0] % 2 == 0 ? 2 : below(2) == 0 ? 1 : channels[0];
        return quantized(GroupNorm{.groups = groups, .eps = eps}, {x, gamma(), beta()});
      }
    }
  }

  NodeId function(NodeId x) {
    const std::vector<Op> all = {Elu{.alpha = between(0.1, 2)},
                                 Softplus{},
                                 Mish{},
                                 Erf{},
                                 Sin{},
                                 Cos{},
                                 Atan{},
                                 Signum{},
                                 Floor{},
                                 Round{},
                                 Abs{},
                                 Gelu{},
                                 HardSwish{},
                                 Pow{.exponent = 2},
                                 Clamp{.low = between(-1, 0), .high = between(0.1, 3)}};
    if (below(4) == 0) return quantized(PRelu{}, {x, constant({shape(x)[-1]})});
    return quantized(pick(all), {x});
  }

  /// Returns x in a shape with some extents 1, so that it broadcasts.
  NodeId reduced(NodeId x) {
    const int along = axis(x);
    if (below(2) == 0) return graph_.add(Slice{.axis = along, .begin = 0, .end = 1}, {x});
    const Mean mean{.axes = {along}, .keep_dims = true};
    return below(2) == 0 ? quantized(mean, {x})
                         : quantized(Max{.axes = {along}, .keep_dims = true}, {x});
  }

  NodeId other(NodeId x) {
    if (below(3) > 0) return quantized(reduced(x));
    std::vector<int64_t> extents;
    for (int k = 1; k < shape(x).rank(); ++k) {
      extents.push_back(below(2) == 0 ? 1 : shape(x)[k]);
    }
    return quantized(constant(Shape(extents)));
  }

  /// Multiplies x by a selection of its own rows or columns.
  NodeId multiplied(NodeId x) {
    const int rank = shape(x).rank();
    const NodeId y = below(2) == 0 ? x : quantized(x);
    switch (below(3)) {
      case 0:
        return quantized(MatMul{.transpose_b = true}, {x, gathered(y, rank - 2)});
      case 1:
        return quantized(MatMul{.transpose_a = true}, {gathered(x, rank - 1), y});
      default: {
        std::vector<int> axes(static_cast<size_t>(rank));
        std::iota(axes.begin(), axes.end(), 0);
        std::swap(axes[axes.size() - 2], axes.back());
        const NodeId z = gathered(graph_.add(Transpose{.permutation = axes}, {y}), rank - 1);
        return quantized(MatMul{}, {x, z});
      }
    }
  }

  NodeId paired(NodeId x) {
    const Op op = pick<Op>({Add{}, Sub{}, Mul{}, Maximum{}, Minimum{}});
    const NodeId y = other(x);
    return below(2) == 0 ? quantized(op, {x, y}) : quantized(op, {y, x});
  }
};

}  // namespace

Graph axes_net(uint64_t seed) { return AxesNet(seed).run(); }

}  // namespace qtape::test
