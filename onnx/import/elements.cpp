#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>

#include "qtape/core/error.h"
#include "qtape/onnx/import/channels.h"
#include "qtape/onnx/import/operators.h"

namespace qtape {
namespace {

struct ElementOperators : OnnxOperators {
  template <class X>
  void element();
  void leaky_relu();
  void clip();
  void hard_sigmoid();
  void gelu();
  void softmax();
  void log_softmax();
  template <class X>
  void binary();
  void batch_normalization();
  void layer_normalization();
  void pow();
  void dropout();

  template <class X>
  void along_axis();
  NodeId with_constant(const OnnxValue& x, const OnnxConstant& constant,
                       const std::string& name);
};

}  // namespace

template <class X>
void ElementOperators::element() {
  OnnxValue a = x();
  a.id = to.add(X{}, {a.id});
  give(std::move(a));
}

void ElementOperators::leaky_relu() {
  const float slope = node.real("alpha", 0.01f);
  OnnxValue a = x();
  a.id = to.add(LeakyRelu{.negative_slope = slope}, {a.id});
  give(std::move(a));
}

void ElementOperators::clip() {
  const auto bound = [&](const char* name, int k, float usual) {
    if (node.has(name)) return node.real(name, usual);
    return to.has_input(node, k) ? to.floats(node, k, 1)[0] : usual;
  };
  const float low = bound("min", 1, -std::numeric_limits<float>::max());
  const float high = bound("max", 2, std::numeric_limits<float>::max());
  OnnxValue a = x();
  const bool open = high >= std::numeric_limits<float>::max();
  if (low == 0 && (open || high == 6)) {
    a.id = open ? to.add(Relu{}, {a.id}) : to.add(Relu6{}, {a.id});
  } else {
    a.id = to.add(Clamp{.low = low, .high = high}, {a.id});
  }
  give(std::move(a));
}

void ElementOperators::hard_sigmoid() {
  constexpr float sixth = 1.0f / 6.0f;
  const float alpha = node.real("alpha", 0.2f), beta = node.real("beta", 0.5f);
  expect(std::abs(alpha - sixth) < 1e-6f && beta == 0.5f,
         "only alpha = 1/6 and beta = 1/2 are supported");
  element<HardSigmoid>();
}

void ElementOperators::gelu() {
  const bool tanh = node.text("approximate", "none") == "tanh";
  OnnxValue a = x();
  a.id = to.add(Gelu{.form = tanh ? GeluForm::Tanh : GeluForm::Erf}, {a.id});
  give(std::move(a));
}

template <class X>
void ElementOperators::along_axis() {
  const int64_t given = node.integer("axis", to.opset() < 13 ? 1 : -1);
  OnnxValue a = x();
  const int axis = onnx_axis(given, a.rank());
  // Before opset 13, the axes from this one on were treated as one.
  require<FormatError>(to.opset() >= 13 || axis + 1 == a.rank(),
                       "axis {} of {} joins axes in opset {}", axis, a.rank(), to.opset());
  require<FormatError>(axis != 0, "axis 0 would join samples");
  a.id = to.add(X{.axis = OnnxImporter::physical_axis(a, axis)}, {a.id});
  give(std::move(a));
}

void ElementOperators::softmax() { along_axis<Softmax>(); }
void ElementOperators::log_softmax() { along_axis<LogSoftmax>(); }

/// Adds a leaf for a constant operand, in the element order of `x`.
NodeId ElementOperators::with_constant(const OnnxValue& a, const OnnxConstant& constant,
                                       const std::string& name) {
  require<FormatError>(constant.is_float, "'{}' must hold floats", printable(name));
  std::vector<int64_t> extents(constant.shape.extents().begin(),
                               constant.shape.extents().end());
  require<FormatError>(extents.size() <= a.shape.size(), "'{}' has more axes than the input",
                       printable(name));
  extents.insert(extents.begin(), a.shape.size() - extents.size(), 1);
  std::vector<float> numbers = constant.floats;
  for (size_t k = 0; k < extents.size(); ++k) {
    require<FormatError>(extents[k] == 1 || (k > 0 && extents[k] == a.shape[k]),
                         "'{}' of [{}] does not broadcast to [{}]", printable(name),
                         fmt::join(extents, ", "), fmt::join(a.shape, ", "));
  }
  if (a.layout == OnnxLayout::ChannelsLast) {
    int64_t places = 1;
    for (size_t k = 2; k < extents.size(); ++k) places *= extents[k];
    numbers = channels_behind(numbers, 1, extents[1], places);
    std::rotate(extents.begin() + 1, extents.begin() + 2, extents.end());
  } else if (a.layout == OnnxLayout::Flat && extents[1] > 1) {
    std::vector<float> ordered;
    for (const size_t from : OnnxImporter::flat_order(a.flat)) ordered.push_back(numbers[from]);
    numbers = std::move(ordered);
  }
  const auto first = std::ranges::find_if(extents, [](int64_t extent) { return extent != 1; });
  extents.erase(extents.begin(), first);
  if (extents.empty()) extents = {1};
  const Shape shape(extents);
  return to.add_parameter(name, shape, std::move(numbers));
}

namespace {

std::string lower(std::string_view name) {
  std::string text(name);
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

}  // namespace

template <class X>
void ElementOperators::binary() {
  const bool first = to.is_constant(node.input(0));
  const bool second = to.is_constant(node.input(1));
  if (first && second) return fold();
  if (!first && !second) {
    OnnxValue a = x();
    OnnxValue b = operand(1);
    const bool alike = a.layout == b.layout && a.rank() == b.rank() && a.flat == b.flat;
    if (!alike && a.rank() == b.rank() && a.rank() >= 3) {
      a = to.to_channels_last(a);
      b = to.to_channels_last(b);
    } else if (!alike) {
      a = to.to_same(a);
      b = to.to_same(b);
    }
    OnnxValue result = a.rank() >= b.rank() ? a : b;
    for (size_t k = 0; k < result.shape.size() && a.rank() == b.rank(); ++k) {
      result.shape[k] = std::max(a.shape[k], b.shape[k]);
    }
    result.id = to.add(X{}, {a.id, b.id}, to.node_label(node, lower(X::name)));
    return give(std::move(result));
  }
  OnnxValue a = operand(first ? 1 : 0);
  const std::string& name = node.input(first ? 0 : 1);
  const NodeId c = with_constant(a, to.constant(node, first ? 0 : 1), name);
  const Shape& shape = to.graph()[c].type.shape;
  const TensorType& type = to.graph()[a.id].type;
  if constexpr (std::is_same_v<X, Add>) {
    if (shape.rank() == 1 && shape[0] == type.shape[-1] && shape[0] > 1) {
      a.id = to.add(AddBias{}, {a.id, c});
      return give(std::move(a));
    }
  }
  a.id = first ? to.add(X{}, {c, a.id}) : to.add(X{}, {a.id, c});
  give(std::move(a));
}

void ElementOperators::batch_normalization() {
  expect_attribute("training_mode", 0);
  expect_attribute("spatial", 1);
  // ONNX's momentum is the weight of the old statistics.
  const BatchNorm op{.momentum = 1.0 - static_cast<double>(node.real("momentum", 0.9f)),
                     .eps = static_cast<double>(node.real("epsilon", 1e-5f))};
  for (int k = 1; k < 5; ++k) expect_weights(k, 1, "floats of rank 1");
  OnnxValue a = x();
  if (a.rank() >= 3) a = to.to_channels_last(a);
  require<FormatError>(a.rank() >= 2, "input 0 has rank {}", a.rank());
  const int64_t channels = a.shape[1];
  const auto numbers = [&](int k) {
    std::vector<float> found = to.floats(node, k, channels);
    if (a.layout != OnnxLayout::Flat) return found;
    std::vector<float> ordered;
    for (const size_t from : OnnxImporter::flat_order(a.flat)) ordered.push_back(found[from]);
    return ordered;
  };
  const Shape shape{channels};
  const std::string label = to.layer_label(node);
  const NodeId gamma = to.add_parameter(node.input(1), shape, numbers(1), label, "weight");
  const NodeId beta = to.add_parameter(node.input(2), shape, numbers(2), label, "bias");
  const NodeId mean = to.add_state(node.input(3), shape, numbers(3));
  const NodeId variance = to.add_state(node.input(4), shape, numbers(4));
  a.id = to.add(op, {a.id, gamma, beta, mean, variance}, label);
  give(std::move(a));
}

void ElementOperators::layer_normalization() {
  const int64_t given = node.integer("axis", -1);
  const auto eps = static_cast<double>(node.real("epsilon", 1e-5f));
  expect_attribute("stash_type", 1);
  expect_weights(1, 1, "floats of rank 1");
  if (to.has_input(node, 2)) expect_weights(2, 1, "floats of rank 1");
  OnnxValue a = to.to_same(x());
  require<FormatError>(a.rank() >= 2 && onnx_axis(given, a.rank()) + 1 == a.rank(),
                       "axis {} is not the last of {}", given, extents_text(a.shape));
  const int64_t n = a.shape.back();
  const std::string label = to.layer_label(node);
  const NodeId gamma = to.add_parameter(node.input(1), {n}, to.floats(node, 1, n));
  const bool biased = to.has_input(node, 2);
  const NodeId beta = to.add_parameter(
      biased ? node.input(2) : "bias", {n},
      biased ? to.floats(node, 2, n) : std::vector<float>(static_cast<size_t>(n)));
  a.id = to.add(LayerNorm{.eps = eps}, {a.id, gamma, beta}, label);
  give(std::move(a));
}

/// Converts Pow with exponent 2 or 0.5 to squares and square roots.
void ElementOperators::pow() {
  const OnnxConstant* found = to.find_constant(node.input(1));
  const bool known = found != nullptr && found->shape.elements() == 1;
  const double power = !known            ? 0
                       : found->is_float ? static_cast<double>(found->floats[0])
                                         : static_cast<double>(found->integers[0]);
  expect(power == 2 || power == 0.5, "only the powers 2 and 0.5 are supported");
  OnnxValue a = x();
  a.id = power == 2 ? to.add(Mul{}, {a.id, a.id}) : to.add(Sqrt{}, {a.id});
  give(std::move(a));
}

void ElementOperators::dropout() {
  float rate = node.real("ratio", 0.5f);
  if (to.has_input(node, 1)) rate = to.floats(node, 1, 1)[0];
  OnnxValue a = x();
  a.id = to.add(Dropout{.rate = static_cast<double>(rate)}, {a.id});
  give(std::move(a));
}

namespace {

constexpr OnnxOperator element_rows[] = {
    {"Relu", convert<&ElementOperators::element<Relu>>},
    {"Sigmoid", convert<&ElementOperators::element<Sigmoid>>},
    {"Tanh", convert<&ElementOperators::element<Tanh>>},
    {"Exp", convert<&ElementOperators::element<Exp>>},
    {"Log", convert<&ElementOperators::element<Log>>},
    {"Neg", convert<&ElementOperators::element<Neg>>},
    {"Sqrt", convert<&ElementOperators::element<Sqrt>>},
    {"HardSwish", convert<&ElementOperators::element<HardSwish>>},
    {"LeakyRelu", convert<&ElementOperators::leaky_relu>},
    {"Clip", convert<&ElementOperators::clip>},
    {"HardSigmoid", convert<&ElementOperators::hard_sigmoid>},
    {"Gelu", convert<&ElementOperators::gelu>},
    {"Softmax", convert<&ElementOperators::softmax>},
    {"LogSoftmax", convert<&ElementOperators::log_softmax>},
    {"Add", convert<&ElementOperators::binary<Add>>},
    {"Sub", convert<&ElementOperators::binary<Sub>>},
    {"Mul", convert<&ElementOperators::binary<Mul>>},
    {"Div", convert<&ElementOperators::binary<Div>>},
    {"Pow", convert<&ElementOperators::pow>},
    {"BatchNormalization", convert<&ElementOperators::batch_normalization>},
    {"LayerNormalization", convert<&ElementOperators::layer_normalization>},
    {"Dropout", convert<&ElementOperators::dropout>},
    {"Identity", convert<&ElementOperators::same>},
    {"Cast", convert<&ElementOperators::same>}};

}  // namespace

std::span<const OnnxOperator> element_conversions() { return element_rows; }

}  // namespace qtape
