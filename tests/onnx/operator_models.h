// A small valid model of each operator that the importer reads.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "qtape/onnx/import/operators.h"
#include "qtape/tests/onnx/onnx_model.h"

namespace qtape::test::onnx_models {

/// A valid model of one operator over x.
struct OperatorModel {
  using Value = std::variant<int64_t, Extents, float, const char*>;

  std::string type;
  Extents x;                           ///< extents of the input, -1 for the batch
  std::vector<Extents> floats = {};    ///< extents of inputs after x, which hold ones
  std::vector<Extents> integers = {};  ///< inputs after these
  std::vector<std::pair<const char*, Value>> attributes = {};
  int64_t opset = 17;
  int32_t x_type = onnx::TensorProto::FLOAT;
  /// OnnxInputs of an operator of codes: x, q, its codes, s and z, scale and zero point of all
  /// codes, w and b, codes of weights and bias; empty for operators of values.
  OnnxInputs coded = {};
  Extents weights = {};

  /// Returns a model of an operator of codes.
  OnnxModel model_of_codes() const {
    const int64_t channels = weights.empty() ? 1 : weights[0];
    const auto ones = [](int64_t n) { return Extents(static_cast<size_t>(n), 1); };
    OnnxModel made(x, opset);
    made.floats("s", {}, {0.5f})
        .codes("z", {}, {3}, onnx::TensorProto::UINT8)
        .codes("zw", {}, {0}, onnx::TensorProto::INT8)
        .codes("w", weights, ones(Shape(weights).elements()), onnx::TensorProto::INT8)
        .codes("b", {channels}, ones(channels), onnx::TensorProto::INT32);
    if (type != "QuantizeLinear") made.node("QuantizeLinear", {"x", "s", "z"}, {"q"});
    const bool ends = type == "DequantizeLinear";
    made.node(type, coded, {ends ? "y" : "r"});
    if (!ends && type != "QuantizeLinear" && type != "QLinearConv" && type != "QLinearMatMul") {
      made.of_domain("com.microsoft");
    }
    for (const auto& [name, value] : attributes) {
      std::visit([&, to = name](const auto& each) { made.with(to, each); }, value);
    }
    if (!ends) made.node("DequantizeLinear", {"r", "s", "z"});
    return made;
  }

  OnnxModel model() const {
    if (!coded.empty()) return model_of_codes();
    OnnxModel made(x, opset, x_type);
    OnnxInputs inputs = {"x"};
    for (const Extents& extents : floats) {
      const auto n = static_cast<size_t>(Shape(extents).elements());
      inputs.emplace_back(onnx_models::floats(extents, Numbers(n, 1)));
    }
    for (const Extents& numbers : integers) inputs.emplace_back(ints(numbers));
    if (type == "Where") std::swap(inputs[0], inputs.back());
    if (type == "Constant" || type == "Shape") {
      made.node("Relu", {"x"});
      inputs = type == "Shape" ? OnnxInputs{"x"} : OnnxInputs{};
    }
    made.node(type, inputs, {made.graph().node_size() > 0 ? "unread" : "y"});
    for (const auto& [name, value] : attributes) {
      std::visit([&, to = name](const auto& each) { made.with(to, each); }, value);
    }
    // The operator comes first.
    if (made.graph().node_size() > 1) {
      made.graph().mutable_node()->SwapElements(0, 1);
      made.output("unread");
    }
    return made;
  }
};

/// Returns the operators with inputs or attributes of their own.
inline std::vector<OperatorModel> particular_operators() {
  const Extents image = {-1, 4, 6, 6}, rows = {-1, 4, 6};
  const Extents pads = {1, 1, 0, 1}, strides = {2, 1}, dilations = {1, 2};
  const int64_t one = 1, two = 2;
  return {
      {"ArgMax", rows, {}, {}, {{"axis", one}, {"keepdims", one - 1}}},
      {"ArgMin", rows, {}, {}, {{"axis", one}, {"keepdims", one - 1}}},
      {"Softmax", rows, {}, {}, {{"axis", two}}, 11},
      {"Mish", rows, {}, {}, {}, 20},
      {"Gelu", rows, {}, {}, {{"approximate", "tanh"}}, 20},
      {"Pow", rows, {{1}}},
      {"CastLike", rows, {{1}}},
      {"Max", rows, {{1}}},
      {"Min", rows, {{1}}},
      {"PRelu", image, {{4, 1, 1}}},
      {"Where", rows, {{4, 1}}, {{1, 0, 1, 0, 0, 1}}},
      {"Gemm", {-1, 4}, {{4, 3}, {3}}, {}, {{"alpha", 2.0f}, {"beta", 0.5f}}},
      {"MatMul", rows, {{6, 3}}},
      {"Einsum", rows, {{6, 3}}, {}, {{"equation", "abc,cd->adb"}}},
      {"Conv",
       image,
       {{8, 2, 3, 3}, {8}},
       {},
       {{"group", two}, {"strides", strides}, {"pads", pads}, {"dilations", dilations}}},
      {"Conv", rows, {{8, 4, 3}, {8}}, {}, {{"strides", Extents{2}}, {"pads", Extents{1, 1}}}},
      {"ConvTranspose",
       image,
       {{4, 2, 3, 3}, {4}},
       {},
       {{"group", two}, {"strides", strides}, {"pads", pads}, {"dilations", dilations}}},
      {"MaxPool",
       image,
       {},
       {},
       {{"kernel_shape", Extents{2, 3}},
        {"strides", strides},
        {"pads", pads},
        {"ceil_mode", one}}},
      {"AveragePool",
       image,
       {},
       {},
       {{"kernel_shape", Extents{2, 3}}, {"strides", strides}, {"pads", pads}}},
      {"BatchNormalization", image, {{4}, {4}, {4}, {4}}},
      {"InstanceNormalization", image, {{4}, {4}}},
      {"GroupNormalization", image, {{2}, {2}}, {}, {{"num_groups", two}}, 18},
      {"LayerNormalization", rows, {{6}, {6}}, {}, {{"axis", -one}}},
      {"RMSNormalization", rows, {{6}}, {}, {{"axis", -one}}, 23},
      {"MeanVarianceNormalization", image, {}, {}, {{"axes", Extents{2, 3}}}},
      {"LRN", image, {}, {}, {{"size", two + one}}},
      {"Reshape", rows, {}, {{-1, 24}}},
      {"Squeeze", {-1, 1, 6}, {}, {{1}}},
      {"Unsqueeze", rows, {}, {{1}}},
      {"Transpose", image, {}, {}, {{"perm", Extents{0, 2, 3, 1}}}},
      {"Concat", rows, {}, {}, {{"axis", one}}},
      {"Split", rows, {}, {{4}}, {{"axis", one}}},
      {"Slice", image, {}, {{1, 0}, {3, 6}, {2, 3}, {1, 2}}},
      {"Gather", rows, {}, {{2, 0, 1}}, {{"axis", one}}},
      {"OneHot", rows, {}, {{5}, {0, 1}}, {}, 17, onnx::TensorProto::INT64},
      {"Expand", {-1, 1, 6}, {}, {{1, 5, 6}}},
      {"Tile", rows, {}, {{1, 2, 3}}},
      {"Pad", image, {}, {{0, 0, 1, 2, 0, 0, 1, 0}}},
      {"DepthToSpace", image, {}, {}, {{"blocksize", two}}},
      {"SpaceToDepth", image, {}, {}, {{"blocksize", two}}},
      {"Upsample", image, {{4}}, {}, {}, 9},
      {"Resize", image, {{4}}, {}, {}, 10},
      {"Cast", rows, {}, {}, {{"to", one}}},
      {"Constant", rows, {}, {}, {{"value_float", 1.0f}}},
      {"ThresholdedRelu", rows, {}, {}, {{"alpha", 0.0f}}},
      {"Shrink", rows, {}, {}, {{"bias", 0.5f}}},
      {"GRU", {-1, 3, 2}, {{1, 6, 2}, {1, 6, 2}, {1, 12}}, {}, {{"layout", one}}},
      {"LSTM", {-1, 3, 2}, {{1, 8, 2}, {1, 8, 2}, {1, 16}}, {}, {{"layout", one}}},
      {"RNN", {-1, 3, 2}, {{1, 2, 2}, {1, 2, 2}, {1, 4}}, {}, {{"layout", one}}}};
}

/// Returns the operators of codes.
inline std::vector<OperatorModel> code_operators() {
  const Extents image = {-1, 4, 6, 6}, rows = {-1, 4};
  const int64_t one = 1;
  const OnnxInputs single = {"q", "s", "z", "s", "z"};
  const auto of = [](const char* type, const Extents& x, const OnnxInputs& coded,
                     const Extents& weights = {}) {
    return OperatorModel{.type = type, .x = x, .coded = coded, .weights = weights};
  };
  std::vector<OperatorModel> all = {
      of("QuantizeLinear", rows, {"x", "s", "z"}),
      of("DequantizeLinear", rows, {"q", "s", "z"}),
      of("QLinearConv", image, {"q", "s", "z", "w", "s", "zw", "s", "z", "b"}, {8, 4, 3, 3}),
      of("QLinearMatMul", rows, {"q", "s", "z", "w", "s", "zw", "s", "z"}, {4, 3}),
      of("QGemm", rows, {"q", "s", "z", "w", "s", "zw", "b", "s", "z"}, {3, 4}),
      of("QLinearAdd", rows, {"q", "s", "z", "q", "s", "z", "s", "z"}),
      of("QLinearMul", rows, {"q", "s", "z", "q", "s", "z", "s", "z"}),
      of("QLinearConcat", rows, {"s", "z", "q", "s", "z", "q", "s", "z"}),
      of("QLinearAveragePool", image, single),
      of("QLinearReduceMean", image, single)};
  const auto with = [&](std::string_view type) -> auto& {
    return std::ranges::find(all, type, &OperatorModel::type)->attributes;
  };
  with("QGemm") = {{"transB", one}};
  with("QLinearConcat") = {{"axis", one}};
  with("QLinearAveragePool") = {{"kernel_shape", Extents{2, 3}}, {"channels_last", one - one}};
  with("QLinearReduceMean") = {{"axes", Extents{2, 3}}, {"keepdims", one}};
  for (const char* type : {"QLinearSigmoid", "QLinearLeakyRelu", "QLinearSoftmax"}) {
    all.push_back(of(type, rows, single));
  }
  all.push_back(of("QLinearGlobalAveragePool", image, single));
  with("QLinearSoftmax") = {{"opset", one * 13}, {"axis", -one}};
  return all;
}

/// Returns models of all operators; those without inputs of their own read x alone, reductions
/// also axes, and functions of two values also a constant.
inline std::vector<OperatorModel> operator_models() {
  std::vector<OperatorModel> all = particular_operators();
  const std::vector<OperatorModel> of_codes = code_operators();
  all.insert(all.end(), of_codes.begin(), of_codes.end());
  constexpr std::string_view binary[] = {
      "Add",         "Sub",   "Mul", "Div", "Greater", "Less", "GreaterOrEqual",
      "LessOrEqual", "Equal", "And", "Or"};
  for (const std::string_view each : onnx_operators()) {
    const std::string type(each);
    if (std::ranges::count(all, type, &OperatorModel::type) > 0) continue;
    if (type == "ConstantOfShape") continue;  // reads constants alone
    OperatorModel made{.type = type, .x = {-1, 4, 6, 6}};
    if (type.starts_with("Reduce"))
      made.attributes = {{"axes", Extents{2, 3}}}, made.opset = 12;
    if (std::ranges::count(binary, each) > 0) made.floats = {{4, 1, 1}};
    all.push_back(std::move(made));
  }
  return all;
}

}  // namespace qtape::test::onnx_models
