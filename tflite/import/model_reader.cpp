#include "qtape/tflite/import/model_reader.h"

#include <cmath>

#include "qtape/engine/labels.h"
#include "qtape/engine/quantizers.h"
#include "qtape/integer/rules/rule_table.h"
#include "qtape/kernels/quantize/quantize.h"

namespace qtape::tflite {
ModelReader::ModelReader(OperatorView& view) : view_(view), values_(view) {}

void ModelReader::add(const Layer& layer) {
  std::visit([&](const auto& each) { add_layer(each); }, layer);
  if (code_type(view_.output().type)) notes_.add_differences(view_, layer);
}

void ModelReader::add_input(int32_t tensor) {
  const TfliteTensor& own = view_.tensor(tensor);
  const bool floats = own.type == TfliteType::Float32;
  if (!floats) (void)view_.grid_of(own);
  check(!has_value(tensor), "tensor '{}' is an input twice", printable(own.name));
  const std::string label = unused(name_of_input(own, tensor));
  const Value input{
      append(qtape::Input{.shape = view_.shape_of(own), .batch = view_.batched()}, {}, label)};
  values_.set(tensor, floats ? input : quantized(input, tensor, label));
}

void ModelReader::add_output(int32_t tensor) { outputs_.push_back(values_.find(tensor)->id); }

SavedModel ModelReader::finish() {
  graph_.set_outputs(std::move(outputs_), {});
  Parameters parameters(graph_, 0);
  for (const auto& [label, values] : parameters_) parameters.set(label, values);
  for (const auto& [id, qparams] : scales_) set_qparams(graph_, parameters, id, qparams);
  return {std::move(graph_), std::move(parameters), {}};
}

ModelReader::Value ModelReader::operand(size_t k) {
  const TfliteType type = view_.input(k).type, made = view_.output().type;
  check(type == made, "input {} is {}, expected {} as the output", k, name_of(type),
        name_of(made));
  return value(k);
}

ModelReader::Value ModelReader::value(size_t k) {
  Value x = computed(k);
  if (x.is_quantized() || view_.input(k).type == TfliteType::Float32) return x;
  const int32_t tensor = view_.op().inputs[k];
  x = quantized(x, tensor, unused(label_of(tensor)));
  values_.keep(tensor, x);
  return x;
}

ModelReader::Value ModelReader::computed(size_t k) {
  const auto& known = values_.known(k);
  return known ? *known : constant(k);
}

ModelReader::Value ModelReader::constant(size_t k) {
  const TfliteTensor& tensor = view_.input(k);
  const int32_t index = view_.op().inputs[k];
  const Shape shape = view_.shape_of(tensor);
  const int64_t n = shape.elements();
  view_.use_weights(n);
  Value x;
  if (tensor.type == TfliteType::Float32) {
    x.id = parameter(index, shape, view_.constants<float>(tensor, TfliteType::Float32, n));
  } else {
    const CodeGrid grid = view_.grid_of(tensor);
    std::vector<float> values;
    for (const int32_t code : view_.codes_of(tensor, n)) {
      values.push_back(static_cast<float>(code - grid.zero_point) * tensor.scales[0]);
    }
    x.id = parameter(index, shape, values);
    const std::string label = graph_[x.id].label;
    x = quantized(x, index, label);
  }
  values_.keep(index, x);
  return x;
}

std::optional<float> ModelReader::number(size_t k) const {
  const TfliteTensor& tensor = view_.input(k);
  const bool single = view_.is_constant(tensor) && tensor.type == TfliteType::Float32 &&
                      view_.shape_of(tensor).elements() == 1;
  if (!single || tensor.shape.size() > view_.input(1 - k).shape.size()) return std::nullopt;
  return view_.constants<float>(tensor, TfliteType::Float32, 1)[0];
}

ModelReader::Value ModelReader::quantized(const Value& x, int32_t tensor,
                                          const std::string& label) {
  const CodeGrid grid = view_.grid_of(view_.tensor(tensor));
  return x.is_quantized() && x.grid == grid ? x : rounded(x.id, grid, label);
}

ModelReader::Value ModelReader::rounded(NodeId x, const CodeGrid& grid,
                                        const std::string& label) {
  const std::vector<QParams<double>> q = {{grid.scale, double(grid.zero_point)}};
  const int bits = grid.dtype == DType::S16 ? 16 : 8;
  FakeQuantize op = quantizer_for(bits, CodeRange::Full, q);
  op.rounding = Rounding::HalfAway;
  const NodeId id = add_quantizer(graph_, x, op, label);
  scales_.emplace_back(id, q);
  return {id, id, grid};
}

NodeId ModelReader::append(const Op& op, std::initializer_list<NodeId> operands,
                           const std::string& label) {
  return graph_.add(op, operands, label);
}

ModelReader::Value ModelReader::apply(const Op& op, std::span<const NodeId> operands,
                                      const Value& x, const std::string& label) {
  Value y{graph_.add(op, operands, label)};
  if (!is_view(op) && !keeps_codes(op)) return y;
  y.quantizer = x.quantizer;
  y.grid = x.grid;
  return y;
}

NodeId ModelReader::parameter(int32_t tensor, const Shape& shape,
                              const std::vector<float>& values) {
  Tensor own = Tensor::of<float>(shape, values);
  const auto known = leaves_.find(tensor);
  if (known != leaves_.end() && parameters_.at(graph_[known->second].label) == own) {
    return known->second;
  }
  const std::string label = unused(label_of(tensor));
  const NodeId id = append(Parameter{.shape = shape}, {}, label);
  parameters_.emplace(label, std::move(own));
  leaves_[tensor] = id;
  return id;
}

NodeId ModelReader::weights(const ProductWeights& weights) {
  const int32_t tensor = view_.op().inputs[1];
  if (!weights.has_codes()) return parameter(tensor, weights.shape, weights.values);
  const auto each = std::ssize(weights.codes) / std::max<int64_t>(1, weights.shape[0]);
  const int lowest = -(1 << (weights.bits - 1));
  bool full = false;
  std::vector<float> values;
  for (int64_t i = 0; i < std::ssize(weights.codes); ++i) {
    const int8_t code = weights.codes[static_cast<size_t>(i)];
    full = full || code == lowest;
    values.push_back(static_cast<float>(code) * weights.scale(i / each));
  }
  const NodeId id = parameter(tensor, weights.shape, values);
  if (view_.input(0).type == TfliteType::Float32) {
    notes_.add(
        "codes of weights that become floats, since TensorFlow Lite quantizes the other "
        "operand again in each run",
        fmt::format("'{}'", printable(view_.input(1).name)));
    return id;
  }
  if (const auto known = quantizers_.find(id); known != quantizers_.end()) return known->second;
  std::vector<QParams<double>> q;
  for (const float scale : weights.scales) q.push_back({double{scale}, 0});
  const Op op = quantizer_for(weights.bits, full ? CodeRange::Full : CodeRange::Narrow, q);
  const std::string label = graph_[id].label;
  const NodeId quantizer = add_quantizer(graph_, id, op, label);
  scales_.emplace_back(quantizer, std::move(q));
  return quantizers_[id] = quantizer;
}

/// Returns values with the codes of the file. Codes beyond 2^24 may lie between two values.
std::vector<float> ModelReader::bias_values(const ProductWeights& weights, const Value& x) {
  const auto s_x = static_cast<float>(x.grid.scale);
  int64_t changed = 0;
  std::vector<float> values;
  for (size_t c = 0; c < weights.bias_codes.size(); ++c) {
    const float s_w = weights.scale(static_cast<int64_t>(c));
    const int32_t code = weights.bias_codes[c];
    values.push_back(kernels::bias_value(double(code), s_x, s_w));
    check(std::isfinite(values.back()), "bias {} is {} steps of {}, which is not a finite f32",
          c, code, double{s_x} * double{s_w});
    changed += kernels::bias_code(values.back(), s_x, s_w) != code ? 1 : 0;
  }
  if (changed > 0) {
    notes_.add(
        "biases of codes that no f32 has exactly",
        fmt::format("'{}' ({} of {})", printable(view_.input(2).name), changed, values.size()));
  }
  return values;
}

NodeId ModelReader::bias(const ProductWeights& weights, const Value& x, NodeId w) {
  const int32_t tensor = view_.op().inputs[2];
  const Shape shape = {weights.shape[0]};
  if (weights.bias_codes.empty()) return parameter(tensor, shape, weights.bias_values);
  const NodeId b = parameter(tensor, shape, bias_values(weights, x));
  const std::string label = unused(graph_[b].label + ".quantized");
  return append(FakeQuantizeBias{}, {b, x.quantizer, w}, label);
}

std::string ModelReader::label_of(int32_t tensor) const {
  const std::string& name = view_.tensor(tensor).name;
  if (name.empty()) return fmt::format("tensor_{}", tensor);
  const std::string value = value_label(name);
  return value.empty() ? name : value;
}

std::string ModelReader::unused(const std::string& name) {
  return names_.unused(name, [&](const std::string& each) {
    return graph_.find(each) || graph_.find(each + ".quantized") ||
           graph_.find(each + ".scale") || graph_.find(each + ".zero_point");
  });
}

}  // namespace qtape::tflite
