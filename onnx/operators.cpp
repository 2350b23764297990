#include "qtape/onnx/operators.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace qtape {
namespace {

/// A matrix [rows, columns] as [columns, rows].
template <class T>
std::vector<T> transposed(const std::vector<T>& a, int64_t rows, int64_t columns) {
  std::vector<T> result(a.size());
  for (int64_t r = 0; r < rows && !a.empty(); ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      result[static_cast<size_t>(c * rows + r)] = a[static_cast<size_t>(r * columns + c)];
    }
  }
  return result;
}

/// Numbers of [outer, channels, places] as [outer, places, channels].
std::vector<float> channels_behind(const std::vector<float>& numbers, int64_t outer,
                                   int64_t channels, int64_t places) {
  std::vector<float> result;
  result.reserve(numbers.size());
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t p = 0; p < places; ++p) {
      for (int64_t c = 0; c < channels; ++c) {
        result.push_back(numbers[static_cast<size_t>((o * channels + c) * places + p)]);
      }
    }
  }
  return result;
}

/// `extent`, where a sum of two cannot overflow. Throws FormatError.
int64_t bounded(int64_t extent) {
  require<FormatError>(extent >= -Shape::max_elements && extent <= Shape::max_elements,
                       "{} is beyond any tensor", extent);
  return extent;
}

/// Windows along the spatial axes.
struct Windows {
  std::vector<int64_t> strides;
  std::vector<int64_t> dilations;
  std::vector<int64_t> begin;
  std::vector<int64_t> end;
  Padding padding = Padding::Valid;
};

std::vector<int64_t> of_axes(const OnnxNode& node, const char* name, size_t count,
                             int64_t usual) {
  std::vector<int64_t> found = node.integers(name).value_or(std::vector<int64_t>(count, usual));
  require<FormatError>(found.size() == count, "attribute {} has {} numbers, expected {}", name,
                       found.size(), count);
  return found;
}

Windows windows_of(const OnnxNode& node, int axes) {
  const auto count = static_cast<size_t>(axes);
  Windows windows{.strides = of_axes(node, "strides", count, 1),
                  .dilations = of_axes(node, "dilations", count, 1),
                  .begin = std::vector<int64_t>(count, 0),
                  .end = std::vector<int64_t>(count, 0)};
  const std::string automatic = node.text("auto_pad", "NOTSET");
  if (automatic == "VALID") return windows;
  if (automatic == "SAME_UPPER") {
    windows.padding = Padding::Same;
    return windows;
  }
  require<FormatError>(automatic == "NOTSET", "auto_pad {} is not read", printable(automatic));
  const std::vector<int64_t> pads = of_axes(node, "pads", 2 * count, 0);
  if (std::ranges::all_of(pads, [](int64_t pad) { return pad == 0; })) return windows;
  windows.padding = Padding::Explicit;
  std::copy_n(pads.begin(), axes, windows.begin.begin());
  std::copy_n(pads.begin() + axes, axes, windows.end.begin());
  return windows;
}

}  // namespace

const std::map<std::string_view, OnnxOperators::Method>& OnnxOperators::methods() {
  using O = OnnxOperators;
  static const std::map<std::string_view, Method> all = {
      {"Gemm", &O::gemm},
      {"MatMul", &O::matmul},
      {"Conv", &O::conv},
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
      {"BatchNormalization", &O::batch_normalization},
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
      {"Constant", &O::constant},
      {"ConstantOfShape", &O::constant_of_shape},
      {"Shape", &O::shape},
      {"Gather", &O::gather}};
  return all;
}

void OnnxOperators::run() {
  const auto found = methods().find(node.type());
  require<FormatError>(found != methods().end(), "the operator has no counterpart");
  (this->*found->second)();
}

void OnnxOperators::linear(OnnxValue a, const std::string& name, std::vector<float> weight,
                           int64_t out, int64_t in, const std::vector<float>& bias,
                           const std::string& bias_name) {
  require<FormatError>(a.rank() >= 2 && a.shape.back() == in,
                       "the weight takes {} features, the input has [{}]", in,
                       fmt::join(a.shape, ", "));
  if (a.layout == OnnxLayout::Flat) {
    int64_t places = 1;
    for (size_t k = 1; k < a.flat.size(); ++k) places *= a.flat[k];
    weight = channels_behind(weight, out, a.flat[0], places);
  } else {
    a = to.to_same(a);
  }
  const std::string label = to.layer_label(name);
  const NodeId w = to.add_parameter(name, {out, in}, std::move(weight));
  NodeId y = to.add(MatMul{.transpose_b = true}, {a.id, w}, bias.empty() ? label : "");
  if (!bias.empty()) {
    const NodeId b = to.add_parameter(bias_name, {out}, bias);
    y = to.add(AddBias{}, {y, b}, label);
  }
  OnnxValue result{.id = y, .shape = a.shape};
  result.shape.back() = out;
  give(std::move(result));
}

void OnnxOperators::gemm() {
  node.expect("transA", 0);
  const OnnxConstant& b = to.constant(node, 1);
  require<FormatError>(b.is_float && b.shape.rank() == 2, "input 1 must be a matrix of floats");
  const bool rows = node.integer("transB", 0) != 0;
  const int64_t out = b.shape[rows ? 0 : 1];
  const int64_t in = b.shape[rows ? 1 : 0];
  const OnnxValue a = x();
  require<FormatError>(a.rank() == 2, "input 0 has rank {}, expected 2", a.rank());
  std::vector<float> weight = rows ? b.floats : transposed(b.floats, in, out);
  const float alpha = node.real("alpha", 1);
  for (float& each : weight) each *= alpha;
  std::vector<float> bias;
  if (to.has_input(node, 2)) {
    const OnnxConstant& c = to.constant(node, 2);
    const auto count = static_cast<int64_t>(c.floats.size());
    require<FormatError>(c.is_float && (count == out || count == 1),
                         "input 2 must hold {} floats", out);
    bias = count == out ? c.floats : std::vector<float>(static_cast<size_t>(out), c.floats[0]);
    const float beta = node.real("beta", 1);
    for (float& each : bias) each *= beta;
  }
  linear(a, node.input(1), std::move(weight), out, in, bias, node.input(2));
}

void OnnxOperators::matmul() {
  if (!to.is_constant(node.input(1))) {
    const OnnxValue a = to.to_same(x());
    const OnnxValue b = to.to_same(to.value(node, 1));
    const NodeId y = to.add(MatMul{}, {a.id, b.id});
    OnnxValue result{.id = y, .shape = a.shape};
    result.shape.back() = b.shape.back();
    return give(std::move(result));
  }
  const OnnxConstant& b = to.constant(node, 1);
  require<FormatError>(b.is_float && b.shape.rank() == 2, "input 1 must be a matrix of floats");
  const int64_t in = b.shape[0], out = b.shape[1];
  linear(x(), node.input(1), transposed(b.floats, in, out), out, in, {}, {});
}

void OnnxOperators::conv() {
  const OnnxValue a = to.to_channels_last(x());
  const OnnxConstant& w = to.constant(node, 1);
  const int axes = a.rank() - 2;
  require<FormatError>(w.is_float && w.shape.rank() == a.rank(),
                       "input 1 must be filters of rank {}", a.rank());
  const Windows windows = windows_of(node, axes);
  const int64_t out = w.shape[0], channels = w.shape[1];
  const std::vector<int64_t> kernel(w.shape.extents().begin() + 2, w.shape.extents().end());
  require<FormatError>(
      of_axes(node, "kernel_shape", kernel.size(), 0) == kernel || !node.has("kernel_shape"),
      "kernel_shape is not that of the filters");
  int64_t places = 1;
  for (const int64_t each : kernel) places *= each;
  std::vector<int64_t> extents = {out};
  extents.insert(extents.end(), kernel.begin(), kernel.end());
  extents.push_back(channels);
  const std::string label = to.layer_label(node.input(1));
  const NodeId filters = to.add_parameter(node.input(1), Shape(extents),
                                          channels_behind(w.floats, out, channels, places));
  const int64_t groups = node.integer("group", 1);
  const bool biased = to.has_input(node, 2);
  const std::string own = biased ? "" : label;
  NodeId y;
  if (axes == 2) {
    y = to.add(Conv2d{.stride = Shape(windows.strides),
                      .padding = windows.padding,
                      .pads_begin = Shape(windows.begin),
                      .pads_end = Shape(windows.end),
                      .dilation = Shape(windows.dilations),
                      .groups = groups},
               {a.id, filters}, own);
  } else {
    y = to.add(Conv1d{.stride = windows.strides[0],
                      .padding = windows.padding,
                      .pad_begin = windows.begin[0],
                      .pad_end = windows.end[0],
                      .dilation = windows.dilations[0],
                      .groups = groups},
               {a.id, filters}, own);
  }
  if (biased) {
    const NodeId b = to.add_parameter(node.input(2), {out}, to.floats(node, 2, out));
    y = to.add(AddBias{}, {y, b}, label);
  }
  const auto lies = to.graph_[y].type.shape.extents();
  OnnxValue result{.id = y, .shape = {1, out}, .layout = OnnxLayout::ChannelsLast};
  result.shape.insert(result.shape.end(), lies.begin() + 1, lies.end() - 1);
  give(std::move(result));
}

template <class PoolOp>
PoolOp OnnxOperators::pool(int axes) {
  node.expect("ceil_mode", 0);
  const Windows windows = windows_of(node, axes);
  const std::vector<int64_t> kernel =
      of_axes(node, "kernel_shape", static_cast<size_t>(axes), 0);
  PoolOp op{
      .kernel = Shape(kernel), .stride = Shape(windows.strides), .padding = windows.padding};
  if (windows.padding == Padding::Explicit) {
    op.pads_begin = Shape(windows.begin);
    op.pads_end = Shape(windows.end);
  }
  return op;
}

void OnnxOperators::max_pool() {
  require<FormatError>(node.outputs() == 1, "the indices of maxima are not read");
  const OnnxValue a = to.to_channels_last(x());
  MaxPool op = pool<MaxPool>(a.rank() - 2);
  op.dilation = Shape(of_axes(node, "dilations", static_cast<size_t>(a.rank() - 2), 1));
  const NodeId y = to.add(op, {a.id});
  const auto lies = to.graph_[y].type.shape.extents();
  OnnxValue result{.id = y, .shape = {1, a.shape[1]}, .layout = OnnxLayout::ChannelsLast};
  result.shape.insert(result.shape.end(), lies.begin() + 1, lies.end() - 1);
  give(std::move(result));
}

void OnnxOperators::average_pool() {
  const OnnxValue a = to.to_channels_last(x());
  AvgPool op = pool<AvgPool>(a.rank() - 2);
  op.count_include_pad = node.integer("count_include_pad", 0) != 0;
  for (const int64_t each : of_axes(node, "dilations", static_cast<size_t>(a.rank() - 2), 1)) {
    require<FormatError>(each == 1, "dilations other than 1 are not read");
  }
  const NodeId y = to.add(op, {a.id});
  const auto lies = to.graph_[y].type.shape.extents();
  OnnxValue result{.id = y, .shape = {1, a.shape[1]}, .layout = OnnxLayout::ChannelsLast};
  result.shape.insert(result.shape.end(), lies.begin() + 1, lies.end() - 1);
  give(std::move(result));
}

void OnnxOperators::global_average_pool() {
  const OnnxValue a = to.to_channels_last(x());
  OnnxValue result{.id = to.add(GlobalAvgPool{.keep_dims = true}, {a.id}),
                   .shape = a.shape,
                   .layout = OnnxLayout::ChannelsLast};
  std::fill(result.shape.begin() + 2, result.shape.end(), int64_t{1});
  give(std::move(result));
}

template <class X>
void OnnxOperators::reduce() {
  OnnxValue a = x();
  if (a.layout == OnnxLayout::Flat) a = to.to_same(a);
  const auto given = to.integers_or(node, "axes", 1);
  require<FormatError>(given && !given->empty(),
                       "without axes it would join samples; name them");
  const bool kept = node.integer("keepdims", 1) != 0;
  std::vector<bool> gone(a.shape.size(), false);
  X op{.keep_dims = kept};
  for (const int64_t each : *given) {
    const int axis = onnx_axis(each, a.rank());
    require<FormatError>(axis != 0, "axis 0 would join samples");
    gone[static_cast<size_t>(axis)] = true;
    op.axes.push_back(OnnxImporter::physical_axis(a, axis));
  }
  OnnxValue result{.id = to.add(op, {a.id}), .shape = {}, .layout = a.layout};
  for (size_t k = 0; k < a.shape.size(); ++k) {
    if (!gone[k]) result.shape.push_back(a.shape[k]);
    if (gone[k] && kept) result.shape.push_back(1);
  }
  // Without channels, or with nothing but them, the order of axes is that of ONNX.
  if (!kept && (gone[1] || result.rank() < 3)) result.layout = OnnxLayout::Same;
  give(std::move(result));
}

void OnnxOperators::reduce_mean() { reduce<Mean>(); }
void OnnxOperators::reduce_sum() { reduce<Sum>(); }
void OnnxOperators::reduce_max() { reduce<Max>(); }

template <class X>
void OnnxOperators::element() {
  OnnxValue a = x();
  a.id = to.add(X{}, {a.id});
  give(std::move(a));
}

void OnnxOperators::leaky_relu() {
  OnnxValue a = x();
  a.id = to.add(LeakyRelu{.negative_slope = node.real("alpha", 0.01f)}, {a.id});
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
  require<FormatError>(
      std::abs(node.real("alpha", 0.2f) - sixth) < 1e-6f && node.real("beta", 0.5f) == 0.5f,
      "only alpha = 1/6 and beta = 1/2 are read");
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
  OnnxValue a = x();
  const int axis = onnx_axis(node.integer("axis", to.opset_ < 13 ? 1 : -1), a.rank());
  // Before opset 13 all axes from this one on were one.
  require<FormatError>(to.opset_ >= 13 || axis + 1 == a.rank(),
                       "axis {} of {} joins axes in opset {}", axis, a.rank(), to.opset_);
  require<FormatError>(axis != 0, "axis 0 would join samples");
  a.id = to.add(X{.axis = OnnxImporter::physical_axis(a, axis)}, {a.id});
  give(std::move(a));
}

void OnnxOperators::softmax() { along_axis<Softmax>(); }
void OnnxOperators::log_softmax() { along_axis<LogSoftmax>(); }

/// The leaf of a constant that is combined with `x`, in the order of x's numbers.
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
                         "'{}' of [{}] does not go with [{}]", printable(name),
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

template <class X>
void OnnxOperators::binary() {
  const bool first = to.is_constant(node.input(0));
  const bool second = to.is_constant(node.input(1));
  require<FormatError>(!first || !second, "both inputs are constants");
  if (!first && !second) {
    OnnxValue a = x();
    OnnxValue b = to.value(node, 1);
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
    result.id = to.add(X{}, {a.id, b.id});
    return give(std::move(result));
  }
  OnnxValue a = to.value(node, first ? 1 : 0);
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
  node.expect("training_mode", 0);
  node.expect("spatial", 1);
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
  const std::string label = to.layer_label(node.input(1));
  const NodeId gamma = to.add_parameter(node.input(1), shape, numbers(1));
  const NodeId beta = to.add_parameter(node.input(2), shape, numbers(2));
  const NodeId mean = to.add_state(node.input(3), shape, numbers(3));
  const NodeId variance = to.add_state(node.input(4), shape, numbers(4));
  // ONNX's momentum is the weight of the old statistics.
  const BatchNorm op{.momentum = 1.0 - static_cast<double>(node.real("momentum", 0.9f)),
                     .eps = static_cast<double>(node.real("epsilon", 1e-5f))};
  a.id = to.add(op, {a.id, gamma, beta, mean, variance}, label);
  give(std::move(a));
}

void OnnxOperators::dropout() {
  require<FormatError>(node.outputs() == 1, "the mask is not read");
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
    require<FormatError>(known, "casts to type {} are not read", type);
  }
  if (constant_input()) return to.add_constant(node.output(0), to.constant(node, 0));
  give(x());
}

void OnnxOperators::give_integers(std::vector<int64_t> numbers) {
  OnnxConstant result{.is_float = false};
  result.shape = Shape{static_cast<int64_t>(numbers.size())};
  result.integers = std::move(numbers);
  to.add_constant(node.output(0), std::move(result));
}

void OnnxOperators::concat() {
  if (constant_input()) {
    std::vector<int64_t> all;
    for (int k = 0; k < node.inputs(); ++k) {
      const std::vector<int64_t> part = to.integers(node, k);
      all.insert(all.end(), part.begin(), part.end());
    }
    return give_integers(std::move(all));
  }
  std::vector<OnnxValue> parts;
  for (int k = 0; k < node.inputs(); ++k) parts.push_back(to.value(node, k));
  const bool last = std::ranges::all_of(
      parts, [](const OnnxValue& part) { return part.layout == OnnxLayout::ChannelsLast; });
  std::vector<NodeId> ids;
  for (OnnxValue& part : parts) {
    if (!last) part = to.to_same(part);
    require<FormatError>(part.rank() == parts[0].rank(), "inputs have different ranks");
    ids.push_back(part.id);
  }
  OnnxValue result = parts[0];
  const int axis = onnx_axis(node.integer("axis", 0), result.rank());
  require<FormatError>(axis != 0, "axis 0 would join samples");
  result.shape[static_cast<size_t>(axis)] = 0;
  for (const OnnxValue& part : parts) {
    result.shape[static_cast<size_t>(axis)] += part.shape[static_cast<size_t>(axis)];
  }
  const Concat op{.axis = OnnxImporter::physical_axis(result, axis),
                  .count = static_cast<int>(ids.size())};
  result.id = to.add(op, ids);
  give(std::move(result));
}

void OnnxOperators::reshape() {
  node.expect("allowzero", 0);
  const std::vector<int64_t> shape = to.integers(node, 1);
  if (!constant_input()) return give(to.reshaped(x(), shape));
  OnnxConstant result = to.constant(node, 0);
  std::vector<int64_t> extents = shape;
  int64_t known = 1;
  for (const int64_t each : extents) known = onnx_product(known, std::max<int64_t>(each, 1));
  std::ranges::replace(extents, int64_t{-1}, result.shape.elements() / known);
  const Shape target(extents);
  require<FormatError>(target.elements() == result.shape.elements(),
                       "{} elements do not fit [{}]", result.shape.elements(),
                       fmt::join(shape, ", "));
  result.shape = target;
  to.add_constant(node.output(0), std::move(result));
}

void OnnxOperators::flatten() {
  const OnnxValue a = x();
  const int axis = a.rank() == 0 ? 0 : static_cast<int>(node.integer("axis", 1));
  require<FormatError>(axis == 1 || axis == 1 - a.rank(), "axis {} would join samples", axis);
  give(to.reshaped(a, {onnx_batch, -1}));
}

void OnnxOperators::squeeze() {
  const auto axes = to.integers_or(node, "axes", 1);
  if (constant_input()) return same();
  require<FormatError>(axes.has_value(), "without axes it may join samples; name them");
  const OnnxValue a = x();
  std::vector<bool> gone(a.shape.size(), false);
  for (const int64_t each : *axes) {
    const auto axis = static_cast<size_t>(onnx_axis(each, a.rank()));
    require<FormatError>(axis != 0 && a.shape[axis] == 1, "axis {} has extent {}", axis,
                         axis == 0 ? "of the batch" : fmt::format("{}", a.shape[axis]));
    gone[axis] = true;
  }
  std::vector<int64_t> shape;
  for (size_t k = 0; k < a.shape.size(); ++k) {
    if (!gone[k]) shape.push_back(k == 0 ? onnx_batch : a.shape[k]);
  }
  give(to.reshaped(a, shape));
}

void OnnxOperators::unsqueeze() {
  const auto axes = to.integers_or(node, "axes", 1);
  require<FormatError>(axes.has_value(), "axes are missing");
  if (constant_input()) {
    OnnxConstant result = to.constant(node, 0);
    std::vector<int64_t> extents(result.shape.extents().begin(), result.shape.extents().end());
    const int rank = result.shape.rank() + static_cast<int>(axes->size());
    for (const int64_t each : *axes) {
      const int axis = onnx_axis(each, rank);
      require<FormatError>(axis <= static_cast<int>(extents.size()), "axis {} is out of range",
                           axis);
      extents.insert(extents.begin() + axis, 1);
    }
    result.shape = Shape(extents);
    return to.add_constant(node.output(0), std::move(result));
  }
  const OnnxValue a = x();
  std::vector<int64_t> sorted;
  const int rank = a.rank() + static_cast<int>(axes->size());
  for (const int64_t each : *axes) sorted.push_back(onnx_axis(each, rank));
  std::ranges::sort(sorted);
  std::vector<int64_t> shape = a.shape;
  shape[0] = onnx_batch;
  for (const int64_t axis : sorted) {
    require<FormatError>(axis >= 1 && axis <= static_cast<int64_t>(shape.size()),
                         "axis {} would come before the samples", axis);
    shape.insert(shape.begin() + axis, 1);
  }
  give(to.reshaped(a, shape));
}

void OnnxOperators::transpose() {
  if (constant_input()) {
    const OnnxConstant& matrix = to.constant(node, 0);
    require<FormatError>(matrix.shape.rank() == 2 &&
                             node.integers("perm").value_or(std::vector<int64_t>{1, 0}) ==
                                 std::vector<int64_t>{1, 0},
                         "of constants only matrices are transposed");
    OnnxConstant result{.shape = {matrix.shape[1], matrix.shape[0]},
                        .is_float = matrix.is_float};
    result.floats = transposed(matrix.floats, matrix.shape[0], matrix.shape[1]);
    result.integers = transposed(matrix.integers, matrix.shape[0], matrix.shape[1]);
    return to.add_constant(node.output(0), std::move(result));
  }
  OnnxValue a = x();
  if (a.layout == OnnxLayout::Flat) a = to.to_same(a);
  const auto given = node.integers("perm");
  require<FormatError>(given && given->size() == a.shape.size() && (*given)[0] == 0,
                       "it must leave axis 0, that of the samples, and name all axes");
  Transpose op;
  OnnxValue result{.id = a.id, .shape = {}};
  bool moved = false;
  for (const int64_t each : *given) {
    const int axis = onnx_axis(each, a.rank());
    const int from = OnnxImporter::physical_axis(a, axis);
    moved = moved || from != static_cast<int>(op.permutation.size());
    op.permutation.push_back(from);
    result.shape.push_back(a.shape[static_cast<size_t>(axis)]);
  }
  if (moved) result.id = to.add(op, {a.id});
  give(std::move(result));
}

void OnnxOperators::slice() {
  const auto starts = to.integers_or(node, "starts", 1);
  const auto ends = to.integers_or(node, "ends", 2);
  const auto named = to.integers_or(node, "axes", 3);
  const auto steps = to.integers_or(node, "steps", 4);
  require<FormatError>(starts && ends && starts->size() == ends->size() &&
                           (!named || named->size() == starts->size()),
                       "starts, ends and axes must be as many");
  if (constant_input()) {
    require<FormatError>(starts->size() == 1 && (!named || named->at(0) == 0),
                         "constants are cut along axis 0 alone");
    return slice_constant((*starts)[0], (*ends)[0], steps && !steps->empty() ? (*steps)[0] : 1);
  }
  for (const int64_t step : steps.value_or(std::vector<int64_t>{})) {
    require<FormatError>(step == 1, "a step of {} is not read", step);
  }
  OnnxValue a = x();
  if (a.layout == OnnxLayout::Flat) a = to.to_same(a);
  for (size_t k = 0; k < starts->size(); ++k) {
    const int axis = onnx_axis(named ? (*named)[k] : static_cast<int64_t>(k), a.rank());
    int64_t& extent = a.shape[static_cast<size_t>(axis)];
    const auto within = [&](int64_t at) {
      return std::clamp<int64_t>(at < 0 ? std::max<int64_t>(at, -extent) + extent : at, 0,
                                 extent);
    };
    const int64_t begin = within((*starts)[k]), end = within((*ends)[k]);
    require<FormatError>(axis != 0 && begin < end, "it leaves nothing of axis {}", axis);
    if (begin == 0 && end == extent) continue;
    a.id =
        to.add(Slice{.axis = OnnxImporter::physical_axis(a, axis), .begin = begin, .end = end},
               {a.id});
    extent = end - begin;
  }
  give(std::move(a));
}

/// Rows of a constant, in steps that may go backwards.
void OnnxOperators::slice_constant(int64_t start, int64_t end, int64_t step) {
  const OnnxConstant& from = to.constant(node, 0);
  require<FormatError>(from.shape.rank() >= 1 && step != 0, "it cannot be cut");
  const int64_t rows = from.shape[0];
  const int64_t low = step > 0 ? 0 : -1;
  const auto within = [&](int64_t at) {
    return std::clamp<int64_t>(at < 0 ? std::max<int64_t>(at, -rows - 1) + rows : at, low,
                               step > 0 ? rows : rows - 1);
  };
  const auto width = static_cast<size_t>(rows == 0 ? 0 : from.shape.elements() / rows);
  OnnxConstant result{.is_float = from.is_float};
  const auto take = [&](const auto& numbers, auto& taken, int64_t row) {
    if (numbers.empty()) return;
    const auto first = numbers.begin() + static_cast<std::ptrdiff_t>(width) * row;
    taken.insert(taken.end(), first, first + static_cast<std::ptrdiff_t>(width));
  };
  int64_t taken = 0;
  const int64_t last = within(end);
  // A step beyond the rows takes one of them.
  const int64_t stride = std::clamp<int64_t>(step, -rows - 1, rows + 1);
  for (int64_t row = within(start); stride > 0 ? row < last : row > last; row += stride) {
    take(from.floats, result.floats, row);
    take(from.integers, result.integers, row);
    ++taken;
  }
  result.shape = from.shape.with(0, taken);
  to.add_constant(node.output(0), std::move(result));
}

void OnnxOperators::constant_of_shape() {
  constexpr int64_t most = 1 << 16;  // what shapes and pads are made of is short
  const Shape shape(to.integers(node, 0));
  require<FormatError>(shape.elements() <= most, "it has {} elements, at most {} are read",
                       shape.elements(), most);
  OnnxConstant result{.shape = shape};
  const auto count = static_cast<size_t>(shape.elements());
  const onnx::TensorProto* tensor = node.tensor("value");
  const OnnxConstant value =
      tensor != nullptr ? read_constant(*tensor) : OnnxConstant{.shape = {1}, .floats = {0}};
  require<FormatError>(value.shape.elements() == 1, "its value must be one number");
  result.is_float = value.is_float;
  if (value.is_float) {
    result.floats.assign(count, value.floats[0]);
  } else {
    result.integers.assign(count, value.integers[0]);
  }
  to.add_constant(node.output(0), std::move(result));
}

void OnnxOperators::pad() {
  const std::string mode = node.text("mode", "constant");
  require<FormatError>(mode == "constant", "mode {} is not read", printable(mode));
  const auto pads = to.integers_or(node, "pads", 1);
  OnnxValue a = x();
  if (a.layout == OnnxLayout::Flat) a = to.to_same(a);
  const size_t rank = a.shape.size();
  require<FormatError>(pads && pads->size() == 2 * rank && !to.has_input(node, 3),
                       "expected {} pads for all axes", 2 * rank);
  float border = node.real("value", 0);
  if (to.has_input(node, 2)) border = to.floats(node, 2, 1)[0];
  std::vector<int64_t> begin(rank), end(rank);
  for (size_t k = 0; k < rank; ++k) {
    const auto lies =
        static_cast<size_t>(OnnxImporter::physical_axis(a, static_cast<int64_t>(k)));
    begin[lies] = bounded((*pads)[k]);
    end[lies] = bounded((*pads)[rank + k]);
    require<FormatError>(
        begin[lies] >= 0 && end[lies] >= 0 && (k > 0 || begin[lies] + end[lies] == 0),
        "axis {} cannot be padded by {} and {}", k, begin[lies], end[lies]);
    a.shape[k] += begin[lies] + end[lies];
  }
  a.id = to.add(Pad{.begin = Shape(begin), .end = Shape(end), .value = border}, {a.id});
  give(std::move(a));
}

void OnnxOperators::constant() {
  if (const onnx::TensorProto* tensor = node.tensor("value")) {
    return to.add_constant(node.output(0), read_constant(*tensor));
  }
  OnnxConstant result;
  if (node.has("value_float")) {
    result.floats = {node.real("value_float", 0)};
  } else if (auto floats = node.reals("value_floats")) {
    result.floats = std::move(*floats);
    result.shape = Shape{static_cast<int64_t>(result.floats.size())};
  } else if (node.has("value_int")) {
    result.is_float = false;
    result.integers = {node.integer("value_int", 0)};
  } else if (auto integers = node.integers("value_ints")) {
    return give_integers(std::move(*integers));
  } else {
    fail<FormatError>("it holds no tensor, floats or integers");
  }
  to.add_constant(node.output(0), std::move(result));
}

void OnnxOperators::shape() {
  require<FormatError>(!node.has("start") && !node.has("end"), "parts of a shape are not read");
  std::vector<int64_t> extents = x().shape;
  require<FormatError>(!extents.empty(), "a scalar has no shape");
  extents[0] = onnx_batch;
  give_integers(std::move(extents));
}

void OnnxOperators::gather() {
  node.expect("axis", 0);
  require<FormatError>(constant_input(), "only parts of shapes are gathered");
  const std::vector<int64_t> from = to.integers(node, 0);
  const OnnxConstant& indices = to.constant(node, 1);
  require<FormatError>(!indices.is_float && indices.shape.rank() <= 1,
                       "indices must be whole numbers in a row");
  OnnxConstant result{.shape = indices.shape, .is_float = false};
  for (const int64_t each : indices.integers) {
    const int at = onnx_axis(each, static_cast<int>(from.size()));
    result.integers.push_back(from[static_cast<size_t>(at)]);
  }
  to.add_constant(node.output(0), std::move(result));
}

}  // namespace qtape
