#include "qtape/integer/analysis.h"

#include <fmt/format.h>

#include <algorithm>
#include <variant>

#include "qtape/engine/quantizers.h"
#include "qtape/integer/code_flow.h"
#include "qtape/kernels/quantize/requantize.h"

namespace qtape {

using namespace kernels;
namespace {

bool is_leaf(const Op& op) { return is_persistent(op) || std::holds_alternative<Constant>(op); }

constexpr int max_weight_bits = 8;

class IntegerAnalyzer {
 public:
  explicit IntegerAnalyzer(const Graph& graph)
      : graph_(graph),
        constant_(static_cast<size_t>(graph.size())),
        blocked_(constant_.size()) {
    result_.forms.resize(constant_.size());
    result_.origins.resize(constant_.size());
    result_.reasons.resize(constant_.size());
  }

  IntegerAnalysis run() {
    for (int32_t i = 0; i < graph_.size(); ++i) {
      id_ = NodeId{i};
      const Node& node = graph_[id_];
      const auto known = [&](NodeId operand) {
        return static_cast<bool>(constant_[at(operand)]);
      };
      result_.origins[at(id_)] = is_view(node.op) ? result_.origin(node.operands[0]) : id_;
      constant_[at(id_)] =
          !std::holds_alternative<Input>(node.op) && std::ranges::all_of(node.operands, known);
      form() = is_view(node.op)
                   ? view()
                   : std::visit([&](const auto& op) { return lowered(op); }, node.op);
    }
    return std::move(result_);
  }

 private:
  static size_t at(NodeId id) { return static_cast<size_t>(id.index); }
  IntegerForm& form() { return result_.forms[at(id_)]; }
  const Node& node() const { return graph_[id_]; }
  const IntegerForm& operand(size_t k) const { return result_[node().operands[k]]; }

  bool blocked_before() const {
    return std::ranges::any_of(node().operands,
                               [&](NodeId id) { return static_cast<bool>(blocked_[at(id)]); });
  }

  /// No integers: because of this node, unless one before it was the cause already.
  template <class... Args>
  IntegerForm refuse(fmt::format_string<Args...> text, Args&&... args) {
    if (!blocked_before()) {
      result_.reasons[at(id_)] = fmt::format(text, std::forward<Args>(args)...);
    }
    blocked_[at(id_)] = true;
    return {};
  }

  /// An operand without a grid where codes are needed.
  IntegerForm refuse_operand(size_t k) {
    const NodeId id = node().operands[k];
    if (constant_[at(id)]) {
      return refuse("{} depends on no input; only MatMul and AddBias take what does not",
                    graph_.describe(id));
    }
    if (operand(k).kind == IntegerKind::Codes) {
      return refuse("{} limits codes without a grid of its own: quantize its output",
                    graph_.describe(id));
    }
    return refuse_unquantized(id);
  }
  IntegerForm refuse_unquantized(NodeId id) {
    return refuse("{} is not quantized: quantize its output", graph_.describe(id));
  }

  template <class T>
  IntegerForm lowered(const T& op) {
    if constexpr (Quantizer<T>) {
      return quantizer();
    } else {
      if (constant_[at(id_)]) return {};
      return other(op);
    }
  }

  IntegerForm view() {
    blocked_[at(id_)] = blocked_before();
    return operand(0);
  }

  IntegerForm quantizer() {
    const TensorType& type = node().type;
    const IntegerForm& x = operand(0);
    if (type.dtype != DType::F32) {
      return refuse("integers stand for f32, got {}", to_string_view(type.dtype));
    }
    if (constant_[at(id_)])
      return {.kind = IntegerKind::Weight, .source = id_, .quantizer = id_};
    const int64_t scales = channel_map(graph_, id_).channels;
    if (scales != 1) {
      return refuse("has {} scales; activations need one: quantize them per tensor", scales);
    }
    if (x.kind == IntegerKind::Float && !blocked_before() &&
        !std::holds_alternative<Input>(graph_[result_.origin(node().operands[0])].op)) {
      return refuse_operand(0);
    }
    return {.kind = IntegerKind::Codes, .source = id_, .quantizer = id_};
  }

  template <class T>
  IntegerForm other(const T&) {
    return refuse("has no integer form");
  }

  IntegerForm other(const Input&) { return {}; }
  // AddBias rounds what it stands for.
  IntegerForm other(const FakeQuantizeBias&) { return {}; }

  IntegerForm other(const MatMul& op) {
    const auto [a, b] = std::pair(node().operands[0], node().operands[1]);
    if (!constant_[at(b)] && constant_[at(a)]) {
      return refuse(
          "weights must be operand 'b' of a product, here operand 'a' depends on no input: "
          "exchange the operands");
    }
    if (!constant_[at(b)]) {
      return refuse(
          "both operands depend on inputs, and integers have products with weights only: take "
          "an output before it");
    }
    if (operand(1).kind != IntegerKind::Weight) return refuse_unquantized(b);
    if (!operand(0).is_plain_codes()) return refuse_operand(0);
    if (op.transpose_a) return refuse("transpose_a has no integer form");
    const std::string wrong = wrong_weight(op);
    if (!wrong.empty()) return refuse("{}", wrong);
    return {.kind = IntegerKind::Accumulators, .source = id_};
  }

  /// What keeps operand 1 from being weights of integer products.
  std::string wrong_weight(const MatMul& op) const {
    const NodeId id = result_[node().operands[1]].quantizer;
    const Shape& shape = graph_[node().operands[1]].type.shape;
    if (shape.rank() != 2) return fmt::format("weights need rank 2, got {}", to_string(shape));
    if (graph_[id].type.shape != shape) {
      return fmt::format(
          "weights are quantized as {} and multiplied as {}: quantize them in the shape of the "
          "product",
          to_string(graph_[id].type.shape), to_string(shape));
    }
    const Grid grid = grid_of(graph_, id);
    if (grid.scheme != Scheme::Symmetric) {
      return "weights must be symmetric: their zero point would multiply every input";
    }
    const int32_t most = (int32_t{1} << (max_weight_bits - 1)) - 1;
    if (grid.limits.q_min < -most - 1 || grid.limits.q_max > most) {
      return fmt::format("weights need codes within s8, got {}..{}", grid.limits.q_min,
                         grid.limits.q_max);
    }
    const int64_t outputs = op.transpose_b ? shape[0] : shape[1];
    const int64_t terms = op.transpose_b ? shape[1] : shape[0];
    if (terms > max_terms)
      return fmt::format("accumulators may have 2^23 terms, got {}", terms);
    if (outputs > max_terms) return fmt::format("may have 2^23 outputs, got {}", outputs);
    const ChannelMap map = channel_map(graph_, id);
    const int axis = op.transpose_b ? 0 : 1;
    if (map.channels != 1 && !along(map, shape, axis)) {
      return fmt::format("weights need one scale or one per output, axis {}, got {} scales",
                         axis, map.channels);
    }
    return "";
  }

  static bool along(const ChannelMap& map, const Shape& shape, int axis) {
    return map == ChannelMap(shape, Granularity{axis, std::nullopt});
  }

  IntegerForm other(const AddBias&) {
    const IntegerForm& x = operand(0);
    const NodeId leaf = bias_leaf(graph_, id_);
    if (x.kind != IntegerKind::Accumulators || x.is_clamped() ||
        !std::holds_alternative<MatMul>(graph_[x.source].op)) {
      return refuse("integers have a bias after a MatMul of quantized operands only");
    }
    if (!is_leaf(graph_[leaf].op)) {
      return refuse("the bias {} must be a Parameter, a State or a Constant",
                    graph_.describe(leaf));
    }
    const NodeId b = node().operands[1];
    if (b != leaf && !rounds_for(b, x.source)) {
      return refuse("{} rounds to the grid of other quantizers than those of the product",
                    graph_.describe(b));
    }
    if (graph_[x.source].type.shape != node().type.shape) {
      return refuse("the bias must follow the MatMul in its shape");
    }
    return {.kind = IntegerKind::Accumulators, .source = id_};
  }

  /// Whether the FakeQuantizeBias `bias` takes the scales of the operands of `product`.
  bool rounds_for(NodeId bias, NodeId product) const {
    const std::vector<NodeId>& factors = graph_[product].operands;
    return graph_[bias].operands[1] == result_[factors[0]].quantizer &&
           graph_[bias].operands[2] == result_[factors[1]].quantizer;
  }

  IntegerForm other(const Relu&) {
    IntegerForm x = operand(0);
    if (!x.is_integer()) return refuse_operand(0);
    if (x.is_plain_codes()) {
      x.source = id_;
      return x;
    }
    return x.limited(0, std::numeric_limits<double>::infinity());
  }

  IntegerForm other(const Clamp& op) {
    if (!operand(0).is_integer()) return refuse_operand(0);
    return operand(0).limited(op.low, op.high);
  }

  IntegerForm other(const Add&) {
    for (size_t k = 0; k < 2; ++k) {
      if (!operand(k).is_plain_codes()) return refuse_operand(k);
    }
    const Shape& a = graph_[node().operands[0]].type.shape;
    const Shape& b = graph_[node().operands[1]].type.shape;
    if (a != b) {
      return refuse("summands must have one shape, got {} and {}", to_string(a), to_string(b));
    }
    return {.kind = IntegerKind::Blend, .source = id_};
  }

  IntegerForm other(const Concat&) {
    for (size_t k = 0; k < node().operands.size(); ++k) {
      const IntegerForm& x = operand(k);
      const bool nested =
          x.kind == IntegerKind::Blend && std::holds_alternative<Concat>(graph_[x.source].op);
      if (!x.is_integer() || nested) return refuse_operand(k);
    }
    return {.kind = IntegerKind::Blend, .source = id_};
  }

  IntegerForm from_codes(IntegerKind kind) {
    if (!operand(0).is_plain_codes()) return refuse_operand(0);
    const int64_t x = graph_[node().operands[0]].type.elements();
    if (kind == IntegerKind::Accumulators &&
        x > max_terms * std::max<int64_t>(1, node().type.elements())) {
      return refuse("accumulators may have 2^23 terms, got {}",
                    x / std::max<int64_t>(1, node().type.elements()));
    }
    IntegerForm result{.kind = kind, .source = id_};
    if (kind == IntegerKind::Codes) result.quantizer = operand(0).quantizer;
    return result;
  }

  IntegerForm other(const Slice&) { return from_codes(IntegerKind::Codes); }
  IntegerForm other(const Max&) { return from_codes(IntegerKind::Codes); }
  IntegerForm other(const Mean&) { return from_codes(IntegerKind::Accumulators); }
  IntegerForm other(const Sum&) { return from_codes(IntegerKind::Accumulators); }

  const Graph& graph_;
  IntegerAnalysis result_;
  NodeId id_;
  std::vector<bool> constant_;
  std::vector<bool> blocked_;
};

}  // namespace

IntegerAnalysis analyze_integers(const Graph& graph) { return IntegerAnalyzer(graph).run(); }

NodeId bias_leaf(const Graph& graph, NodeId id) {
  const NodeId b = graph[id].operands[1];
  const bool rounded = std::holds_alternative<FakeQuantizeBias>(graph[b].op);
  return rounded ? graph[b].operands[0] : b;
}

std::vector<float> bias_values(const Graph& graph, const Parameters& parameters, NodeId leaf) {
  const Node& node = graph[leaf];
  const auto* constant = std::get_if<Constant>(&node.op);
  const Tensor tensor = constant != nullptr ? constant->value : parameters.get(node.label);
  check(tensor.type == node.type, "{}: the parameters hold {}", graph.describe(leaf),
        to_string(tensor.type));
  const auto* first = reinterpret_cast<const float*>(tensor.data.data());
  return {first, first + tensor.type.elements()};
}

std::vector<bool> needed_for(const Graph& graph, std::span<const NodeId> outputs) {
  std::vector<bool> needed(static_cast<size_t>(graph.size()));
  for (NodeId id : outputs) {
    (void)graph[id];
    needed[static_cast<size_t>(id.index)] = true;
  }
  for (int32_t i = static_cast<int32_t>(graph.size()) - 1; i >= 0; --i) {
    if (!needed[static_cast<size_t>(i)]) continue;
    for (NodeId id : graph[NodeId{i}].operands) needed[static_cast<size_t>(id.index)] = true;
  }
  return needed;
}

}  // namespace qtape
