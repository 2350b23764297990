#include "qtape/onnx/import/operators.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>

#include "qtape/onnx/import/channels.h"

namespace qtape {

const std::map<std::string_view, OnnxOperators::Method>& OnnxOperators::methods() {
  using O = OnnxOperators;
  static const std::map<std::string_view, Method> all = {
      {"Gemm", &O::gemm},
      {"MatMul", &O::matmul},
      {"Conv", &O::conv},
      {"ConvTranspose", &O::conv_transpose},
      {"MaxPool", &O::max_pool},
      {"AveragePool", &O::average_pool},
      {"GlobalAveragePool", &O::global_average_pool},
      {"ReduceMean", &O::reduce_mean},
      {"ReduceSum", &O::reduce_sum},
      {"ReduceMax", &O::reduce_max},
      {"Relu", &O::element<Relu>},
      {"Sigmoid", &O::element<Sigmoid>},
      {"Tanh", &O::element<Tanh>},
      {"Exp", &O::element<Exp>},
      {"Log", &O::element<Log>},
      {"Neg", &O::element<Neg>},
      {"Sqrt", &O::element<Sqrt>},
      {"HardSwish", &O::element<HardSwish>},
      {"LeakyRelu", &O::leaky_relu},
      {"Clip", &O::clip},
      {"HardSigmoid", &O::hard_sigmoid},
      {"Gelu", &O::gelu},
      {"Softmax", &O::softmax},
      {"LogSoftmax", &O::log_softmax},
      {"Add", &O::binary<Add>},
      {"Sub", &O::binary<Sub>},
      {"Mul", &O::binary<Mul>},
      {"Div", &O::binary<Div>},
      {"Pow", &O::pow},
      {"BatchNormalization", &O::batch_normalization},
      {"LayerNormalization", &O::layer_normalization},
      {"Dropout", &O::dropout},
      {"Identity", &O::same},
      {"Cast", &O::same},
      {"Concat", &O::concat},
      {"Reshape", &O::reshape},
      {"Flatten", &O::flatten},
      {"Squeeze", &O::squeeze},
      {"Unsqueeze", &O::unsqueeze},
      {"Transpose", &O::transpose},
      {"Slice", &O::slice},
      {"Pad", &O::pad},
      {"Split", &O::split},
      {"Resize", &O::resize},
      {"Upsample", &O::resize},
      {"Constant", &O::constant},
      {"ConstantOfShape", &O::constant_of_shape},
      {"Shape", &O::shape},
      {"Gather", &O::gather}};
  return all;
}

void OnnxOperators::run() {
  // Attributes without effect on values.
  for (const char* ignored : {"storage_order", "seed", "saturate"}) (void)node.has(ignored);
  require<FormatError>(node.domain().empty(), "operators of the domain '{}' are not supported",
                       printable(node.domain()));
  const auto found = methods().find(node.type());
  require<FormatError>(found != methods().end(), "the operator is not supported: {}",
                       onnx_remedy(node.type()));
  (this->*found->second)();
}

void OnnxOperators::expect_weights(int k, int rank, std::string_view kind) {
  const std::string& name = node.input(k);
  if (to.unknown_.contains(name)) return;
  const OnnxConstant* found = to.find_constant(name);
  expect(found != nullptr, "input {}, '{}', must be a constant", k, printable(name));
  if (found == nullptr) return;
  expect(found->is_float && (rank == 0 || found->shape.rank() == rank), "input {} must be {}",
         k, kind);
}

template <class X>
void OnnxOperators::element() {
  OnnxValue a = x();
  a.id = to.add(X{}, {a.id});
  give(std::move(a));
}

void OnnxOperators::leaky_relu() {
  const float slope = node.real("alpha", 0.01f);
  OnnxValue a = x();
  a.id = to.add(LeakyRelu{.negative_slope = slope}, {a.id});
  give(std::move(a));
}

void OnnxOperators::clip() {
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

void OnnxOperators::hard_sigmoid() {
  constexpr float sixth = 1.0f / 6.0f;
  const float alpha = node.real("alpha", 0.2f), beta = node.real("beta", 0.5f);
  expect(std::abs(alpha - sixth) < 1e-6f && beta == 0.5f,
         "only alpha = 1/6 and beta = 1/2 are supported");
  element<HardSigmoid>();
}

void OnnxOperators::gelu() {
  const bool tanh = node.text("approximate", "none") == "tanh";
  OnnxValue a = x();
  a.id = to.add(Gelu{.form = tanh ? GeluForm::Tanh : GeluForm::Erf}, {a.id});
  give(std::move(a));
}

template <class X>
void OnnxOperators::along_axis() {
  const int64_t given = node.integer("axis", to.opset_ < 13 ? 1 : -1);
  OnnxValue a = x();
  const int axis = onnx_axis(given, a.rank());
  // Before opset 13, the axes from this one on were treated as one.
  require<FormatError>(to.opset_ >= 13 || axis + 1 == a.rank(),
                       "axis {} of {} joins axes in opset {}", axis, a.rank(), to.opset_);
  require<FormatError>(axis != 0, "axis 0 would join samples");
  a.id = to.add(X{.axis = OnnxImporter::physical_axis(a, axis)}, {a.id});
  give(std::move(a));
}

void OnnxOperators::softmax() { along_axis<Softmax>(); }
void OnnxOperators::log_softmax() { along_axis<LogSoftmax>(); }

/// Adds a leaf for a constant operand, in the element order of `x`.
NodeId OnnxOperators::with_constant(const OnnxValue& a, const OnnxConstant& constant,
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
void OnnxOperators::binary() {
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
  const Shape& shape = to.graph_[c].type.shape;
  const TensorType& type = to.graph_[a.id].type;
  if constexpr (std::is_same_v<X, Add>) {
    if (shape.rank() == 1 && shape[0] == type.shape[-1] && shape[0] > 1) {
      a.id = to.add(AddBias{}, {a.id, c});
      return give(std::move(a));
    }
  }
  a.id = first ? to.add(X{}, {c, a.id}) : to.add(X{}, {a.id, c});
  give(std::move(a));
}

void OnnxOperators::batch_normalization() {
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

void OnnxOperators::layer_normalization() {
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
void OnnxOperators::pow() {
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

void OnnxOperators::dropout() {
  float rate = node.real("ratio", 0.5f);
  if (to.has_input(node, 1)) rate = to.floats(node, 1, 1)[0];
  OnnxValue a = x();
  a.id = to.add(Dropout{.rate = static_cast<double>(rate)}, {a.id});
  give(std::move(a));
}

void OnnxOperators::same() {
  if (node.type() == "Cast") {
    const int64_t type = node.integer("to", 0);
    const bool float_to = type == onnx::TensorProto::FLOAT || type == onnx::TensorProto::DOUBLE;
    const bool integer_to =
        type == onnx::TensorProto::INT64 || type == onnx::TensorProto::INT32;
    const bool known =
        constant_input() ? to.constant(node, 0).is_float ? float_to : integer_to : float_to;
    expect(known, "casts to type {} are not supported", type);
  }
  if (constant_input()) return to.add_constant(node.output(0), to.constant(node, 0));
  give(x());
}

}  // namespace qtape
