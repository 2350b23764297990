#include "qtape/onnx/import/patterns.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "qtape/onnx/attributes.h"
#include "qtape/onnx/import/equal_nodes.h"
#include "qtape/onnx/import/graph_view.h"
#include "qtape/onnx/import/sequence_items.h"
#include "qtape/onnx/onnx_node.h"

namespace qtape {
namespace {

void set(onnx::NodeProto& node, const char* name, double value) {
  set_real_attribute(node, name, static_cast<float>(value));
}

/// An activation of a value.
struct Activation {
  std::string type;
  std::string x;
  std::string approximate = {};
};

class Activations {
 public:
  explicit Activations(OnnxGraphView& view) : view_(view) {}

  void run() {
    for (int i = 0; i < view_.graph().node_size(); ++i) {
      const auto found = activation(view_.graph().node(i));
      if (!found) continue;
      onnx::NodeProto& node = view_.replace(i, found->type, {found->x});
      if (found->approximate.empty()) continue;
      set_attribute(node, "approximate", found->approximate.c_str());
    }
  }

 private:
  /// Returns x of 1 + erf(x / sqrt 2).
  std::optional<Activation> erf_gate(const std::string& gate) const {
    const auto inner = view_.summand(gate, 1);
    const auto* erf = inner ? view_.node_of(*inner, "Erf") : nullptr;
    if (erf == nullptr) return {};
    for (const char* type : {"Div", "Mul"}) {
      for (const std::string& x : view_.operands(erf->input(0), type)) {
        if (view_.number(x) || !view_.is_product(erf->input(0), std::sqrt(0.5), {x})) continue;
        return Activation{"Gelu", x, "none"};
      }
    }
    return {};
  }

  /// Returns x of 1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)).
  std::optional<Activation> tanh_gate(const std::string& gate) const {
    const auto inner = view_.summand(gate, 1);
    const auto* tanh = inner ? view_.node_of(*inner, "Tanh") : nullptr;
    if (tanh == nullptr) return {};
    for (const std::string& sum : view_.operands(tanh->input(0), "Mul")) {
      if (!view_.is_product(tanh->input(0), std::sqrt(2 / 3.14159265358979), {sum})) continue;
      for (const std::string& x : view_.operands(sum, "Add")) {
        const auto both = view_.operands(sum, "Add");
        if (both.size() != 2) continue;
        const std::string& cube = both[x == both[0] ? 1 : 0];
        if (view_.is_product(cube, 0.044715, {x, x, x})) return Activation{"Gelu", x, "tanh"};
      }
    }
    return {};
  }

  /// Returns x of clip(x + 3, 0, 6).
  std::optional<Activation> clip_gate(const std::string& gate) const {
    const auto* clip = view_.node_of(gate, "Clip");
    if (clip == nullptr || clip->input_size() < 1) return {};
    const OnnxNode node(*clip);
    const auto bound = [&](const char* name, int k) {
      return node.has(name) ? std::optional(double{node.real(name, 0)})
                            : view_.number(node.input(k));
    };
    if (bound("min", 1) != 0.0 || bound("max", 2) != 6.0) return {};
    const auto x = view_.summand(clip->input(0), 3);
    return x ? std::optional(Activation{"HardSwish", *x}) : std::nullopt;
  }

  /// Returns x of tanh(softplus(x)), or of hardsigmoid(x) with slope 1 / 6.
  std::optional<Activation> whole_gate(const std::string& gate) const {
    if (const auto* tanh = view_.node_of(gate, "Tanh")) {
      const auto* plus = view_.node_of(tanh->input(0), "Softplus");
      if (plus != nullptr) return Activation{"Mish", plus->input(0)};
    }
    if (const auto* gated = view_.node_of(gate, "HardSigmoid")) {
      const OnnxNode node(*gated);
      const bool hard_swish = nearly_equal(double{node.real("alpha", 0.2f)}, 1.0 / 6) &&
                              node.real("beta", 0.5f) == 0.5f;
      if (hard_swish) return Activation{"HardSwish", gated->input(0)};
    }
    return {};
  }

  std::optional<Activation> activation(const onnx::NodeProto& node) const {
    const bool divides = node.op_type() == "Div";
    if ((node.op_type() != "Mul" && !divides) || node.input_size() != 2 ||
        node.output_size() != 1 || !node.domain().empty()) {
      return {};
    }
    const OnnxFactors found = view_.factors(node.output(0), {});
    for (const std::string& gate : found.values) {
      struct Form {
        std::optional<Activation> found;
        double factor;
      };
      for (const Form& form : {Form{erf_gate(gate), 0.5}, Form{tanh_gate(gate), 0.5},
                               Form{clip_gate(gate), 1.0 / 6}, Form{whole_gate(gate), 1}}) {
        if (form.found &&
            view_.is_product(node.output(0), form.factor, {form.found->x, gate})) {
          return form.found;
        }
      }
    }
    return {};
  }

  OnnxGraphView& view_;
};

/// Choices between x and a x by the sign of x, as `torch.where(x > 0, x, a * x)`.
class Choices {
 public:
  explicit Choices(OnnxGraphView& view) : view_(view) {}

  void run() {
    for (int i = 0; i < view_.graph().node_size(); ++i) {
      const auto found = choice(view_.graph().node(i));
      if (!found) continue;
      onnx::NodeProto& node = view_.replace(i, "LeakyRelu", {found->x});
      set(node, "alpha", found->slope);
    }
  }

 private:
  struct Choice {
    std::string x;
    double slope = 0;
  };

  std::optional<Choice> choice(const onnx::NodeProto& node) const {
    if (node.op_type() != "Where" || node.input_size() != 3 || !node.domain().empty())
      return {};
    for (const char* type : {"Greater", "GreaterOrEqual", "Less", "LessOrEqual"}) {
      const std::vector<std::string> compared = view_.operands(node.input(0), type);
      if (compared.size() != 2) continue;
      // x > 0, or 0 < x.
      const bool swapped = view_.number(compared[0]) == 0.0;
      const std::string& x = compared[swapped ? 1 : 0];
      if (view_.number(x) || (!swapped && view_.number(compared[1]) != 0.0)) return {};
      const bool above = std::string_view(type).starts_with("Greater") != swapped;
      const std::string& other = node.input(above ? 2 : 1);
      if (node.input(above ? 1 : 2) != x) return {};
      const OnnxFactors factors = view_.factors(other, {x});
      if (factors.values != std::vector{x}) return {};
      return Choice{x, factors.number};
    }
    return {};
  }

  OnnxGraphView& view_;
};

/// Local response norm of an odd size as PyTorch writes it:
/// x / (bias + alpha avg_pool(pad(x^2)))^beta, with the channels as an axis of the pool.
class LocalResponses {
 public:
  explicit LocalResponses(OnnxGraphView& view) : view_(view) {}

  void run() {
    for (int i = 0; i < view_.graph().node_size(); ++i) {
      const auto found = response(view_.graph().node(i));
      if (!found) continue;
      onnx::NodeProto& node = view_.replace(i, "LRN", {found->x});
      set(node, "alpha", found->alpha);
      set(node, "beta", found->beta);
      set(node, "bias", found->bias);
      set_attribute(node, "size", found->size);
    }
  }

 private:
  struct Response {
    std::string x;
    double alpha = 0;
    double beta = 0;
    double bias = 0;
    int64_t size = 0;
  };

  std::optional<Response> response(const onnx::NodeProto& node) const {
    if (node.op_type() != "Div" || node.input_size() != 2 || !node.domain().empty()) return {};
    const auto power = view_.operands(node.input(1), "Pow");
    const auto beta = power.size() == 2 ? view_.number(power[1]) : std::nullopt;
    const auto sum = beta ? view_.operands(power[0], "Add") : std::vector<std::string>{};
    const auto bias = sum.size() == 2 ? view_.number(sum[1]) : std::nullopt;
    if (!bias) return {};
    const OnnxFactors mean = view_.factors(sum[0], {});
    if (mean.values.size() != 1) return {};
    const auto size = pooled(mean.values[0], node.input(0));
    if (!size) return {};
    return Response{node.input(0), mean.number, *beta, *bias, *size};
  }

  /// Returns the node from which `name` is reshaped, also through a branch on an extent.
  const onnx::NodeProto* origin(std::string name) const {
    constexpr int max_steps = 8;
    for (int k = 0; k < max_steps; ++k) {
      const onnx::NodeProto* node = view_.node_of(name);
      if (node == nullptr || node->input_size() < 1) return nullptr;
      const std::string& type = node->op_type();
      if (type != "Reshape" && type != "Squeeze" && type != "Unsqueeze" && type != "If") {
        return node;
      }
      name = type == "If" ? tested(*node) : node->input(0);
    }
    return nullptr;
  }

  /// Returns the value whose extent an If tests.
  std::string tested(const onnx::NodeProto& branch) const {
    std::string name = branch.input(0);
    for (const char* type : {"Equal", "Gather", "Shape"}) {
      const auto inputs = view_.operands(name, type);
      if (inputs.empty()) return {};
      name = inputs[0];
    }
    return name;
  }

  /// Returns the size if `name` is the mean of x^2 over windows of the channels.
  std::optional<int64_t> pooled(const std::string& name, const std::string& x) const {
    const onnx::NodeProto* pool = origin(name);
    if (pool == nullptr || pool->op_type() != "AveragePool") return {};
    const OnnxNode attributes(*pool);
    const auto kernel = attributes.integers("kernel_shape").value_or(std::vector<int64_t>{});
    const auto all = [&](const char* key, int64_t value) {
      const auto found = attributes.integers(key).value_or(std::vector<int64_t>{value});
      return std::ranges::all_of(found, [&](int64_t each) { return each == value; });
    };
    if (kernel.size() < 2 || kernel[0] < 1 || kernel[0] % 2 == 0 || !all("strides", 1) ||
        !all("pads", 0) || !all("dilations", 1) || attributes.has("auto_pad") ||
        attributes.integer("count_include_pad", 0) != 1) {
      return {};
    }
    if (!std::all_of(kernel.begin() + 1, kernel.end(), [](int64_t n) { return n == 1; })) {
      return {};
    }
    const onnx::NodeProto* pad = view_.node_of(pool->input(0), "Pad");
    if (pad == nullptr || pad->input_size() < 2 || !is_of_channels(*pad)) return {};
    std::vector<int64_t> pads(2 * kernel.size() - 2);
    pads.insert(pads.end(), 2, kernel[0] / 2);
    if (!comes_from(pad->input(1), pads)) return {};
    const onnx::NodeProto* square = origin(pad->input(0));
    const bool squared = square != nullptr && view_.is_product(square->output(0), 1, {x, x});
    return squared ? std::optional(kernel[0]) : std::nullopt;
  }

  /// True for a Pad with zeros of a value whose channels have an axis of extent 1 before them.
  bool is_of_channels(const onnx::NodeProto& pad) const {
    const onnx::NodeProto* apart = view_.node_of(pad.input(0));
    const bool zeros =
        pad.input_size() < 3 || pad.input(2).empty() || view_.number(pad.input(2)) == 0.0;
    return zeros && OnnxNode(pad).text("mode", "constant") == "constant" && apart != nullptr &&
           (apart->op_type() == "Unsqueeze" || apart->op_type() == "Reshape");
  }

  /// True if one of the constants from which `name` is computed holds these integers.
  bool comes_from(const std::string& name, const std::vector<int64_t>& numbers) const {
    constexpr size_t max_names = 64;
    std::vector<std::string> names = {name};
    for (size_t k = 0; k < names.size() && k < max_names; ++k) {
      const auto found = view_.integers(names[k]);
      if (found && found->values == numbers) return true;
      const onnx::NodeProto* node = view_.node_of(names[k]);
      if (node == nullptr) continue;
      for (const std::string& each : node->input()) names.push_back(each);
    }
    return false;
  }

  OnnxGraphView& view_;
};

/// Makes a number that is cast to the type of a length, which is a float, the number itself:
/// exports that are not optimized write the limit of `F.normalize` so.
void drop_casts(OnnxGraphView& view) {
  for (int i = 0; i < view.graph().node_size(); ++i) {
    const onnx::NodeProto& node = view.graph().node(i);
    if (node.op_type() != "CastLike" || !node.domain().empty() || node.input_size() != 2 ||
        !view.number(node.input(0)) || view.node_of(node.input(1), "ReduceL2") == nullptr) {
      continue;
    }
    const std::string number = node.input(0);
    (void)view.replace(i, "Identity", {number});
  }
}

}  // namespace

void fuse_patterns(onnx::GraphProto& graph) {
  merge_equal_nodes(graph);
  OnnxGraphView view(graph);
  drop_casts(view);
  Activations(view).run();
  Choices(view).run();
  LocalResponses(view).run();
  replace_sequence_items(view);
  view.remove_unread();
}

}  // namespace qtape
