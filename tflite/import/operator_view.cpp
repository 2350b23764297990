#include "qtape/tflite/import/operator_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "qtape/core/printable.h"
#include "qtape/tflite/activations.h"

namespace qtape::tflite {
namespace {

/// True if all activations have an axis 0 of extent 1.
bool has_batch(const TfliteModel& model) {
  const auto single = [&](int32_t index) {
    const TfliteTensor& tensor = model.tensors[static_cast<size_t>(index)];
    return !tensor.shape.empty() && tensor.shape[0] == 1;
  };
  for (const TfliteOperator& op : model.operators) {
    if (!std::ranges::all_of(op.outputs, single)) return false;
  }
  return std::ranges::all_of(model.inputs, single);
}

}  // namespace

OperatorView::OperatorView(const TfliteModel& model)
    : model_(model), weights_left_(int64_t{1} << 20), batched_(has_batch(model)) {
  constexpr int64_t max_uses = 32;  // of the bytes of a file
  for (const auto& each : model.buffers) weights_left_ += max_uses * std::ssize(each);
}

void OperatorView::use_weights(int64_t count) {
  weights_left_ -= count;
  check(weights_left_ >= 0, "reads weights that too many other operators share");
}

void OperatorView::check_pair() const {
  if (!batched_) return;
  const size_t rank = output().shape.size();
  for (const size_t k : {size_t{0}, size_t{1}}) {
    const size_t own = input(k).shape.size();
    check(own == rank || (is_constant(input(k)) && own < rank),
          "mixes samples: an operand is {}, expected {} axes", to_string(shape_of(input(k))),
          rank);
  }
}

void OperatorView::check_operands(size_t least, size_t most) const {
  const size_t count = op_->inputs.size();
  check(count >= least && count <= most, "the number of inputs is {}, expected {}", count,
        least == most ? fmt::format("{}", least) : fmt::format("{} to {}", least, most));
  check(op_->outputs.size() == 1, "the number of outputs is {}, expected 1",
        op_->outputs.size());
}

bool OperatorView::has_input(size_t k) const {
  return k < op_->inputs.size() && op_->inputs[k] >= 0;
}

const TfliteTensor& OperatorView::input(size_t k) const {
  check(has_input(k), "input {} is missing", k);
  return tensor(op_->inputs[k]);
}

const TfliteTensor& OperatorView::output() const { return tensor(op_->outputs[0]); }

bool OperatorView::is_constant(const TfliteTensor& tensor) const {
  return !model_.buffers[tensor.buffer].empty();
}

Shape OperatorView::shape_of(const TfliteTensor& tensor) const {
  return Shape(std::vector<int64_t>(tensor.shape.begin(), tensor.shape.end()));
}

std::span<const std::byte> OperatorView::data_of(const TfliteTensor& tensor, TfliteType type,
                                                 int64_t size) const {
  check(tensor.type == type, "tensor '{}' is {}, expected {}", printable(tensor.name),
        name_of(tensor.type), name_of(type));
  check(is_constant(tensor), "tensor '{}' is computed, expected a constant",
        printable(tensor.name));
  const std::span<const std::byte> data = model_.buffers[tensor.buffer];
  check(std::ssize(data) == size, "tensor '{}' has {} bytes, expected {}",
        printable(tensor.name), data.size(), size);
  return data;
}

std::vector<int64_t> OperatorView::numbers(size_t k) const {
  const TfliteTensor& tensor = input(k);
  const int64_t n = shape_of(tensor).elements();
  if (tensor.type == TfliteType::Int64) {
    return constants<int64_t>(tensor, TfliteType::Int64, n);
  }
  const std::vector<int32_t> values = constants<int32_t>(tensor, TfliteType::Int32, n);
  return {values.begin(), values.end()};
}

CodeGrid OperatorView::grid_of(const TfliteTensor& tensor) const {
  const std::string name = printable(tensor.name);
  const std::optional<DType> dtype = code_type(tensor.type);
  check(dtype.has_value(), "tensor '{}' is {}, expected INT8 or INT16", name,
        name_of(tensor.type));
  check(tensor.scales.size() == 1, "tensor '{}' has {} scales, expected 1", name,
        tensor.scales.size());
  const int64_t zero = tensor.zero_points.empty() ? 0 : tensor.zero_points[0];
  const bool wide = dtype == DType::S16;
  check(wide ? zero == 0 : zero >= -128 && zero <= 127,
        "tensor '{}' has the zero point {}, expected {}", name, zero,
        wide ? "0, as INT16 requires" : "-128..127");
  check(std::isnormal(tensor.scales[0]) && tensor.scales[0] > 0,
        "tensor '{}' has the scale {}, expected a positive normal number", name,
        tensor.scales[0]);
  return limited({.dtype = *dtype,
                  .scale = double{tensor.scales[0]},
                  .zero_point = static_cast<int32_t>(zero)},
                 Activation::None);
}

std::vector<int32_t> OperatorView::codes_of(const TfliteTensor& tensor, int64_t n) const {
  if (tensor.type == TfliteType::Int16) {
    const std::vector<int16_t> codes = constants<int16_t>(tensor, TfliteType::Int16, n);
    return {codes.begin(), codes.end()};
  }
  const std::vector<int8_t> codes = constants<int8_t>(tensor, TfliteType::Int8, n);
  return {codes.begin(), codes.end()};
}

void OperatorView::check_same_grid(size_t k) const {
  check(input(k).type == output().type, "input {} is {}, expected {} as the output", k,
        name_of(input(k).type), name_of(output().type));
  if (output().type == TfliteType::Float32) return;
  const CodeGrid from = grid_of(input(k));
  const CodeGrid to = grid_of(output());
  check(from == to,
        "changes the scale {} and zero point {} of input {} to {} and {}, expected the same",
        from.scale, from.zero_point, k, to.scale, to.zero_point);
}

void OperatorView::check_computed(const Shape& computed) const {
  const Shape stated = shape_of(output());
  check(computed == stated, "computes {}, but tensor '{}' is {}", to_string(computed),
        printable(output().name), to_string(stated));
}

std::string name_of_input(const TfliteTensor& tensor, int32_t index) {
  return tensor.name.empty() ? fmt::format("input_{}", index) : tensor.name;
}

std::string place_of(const TfliteModel& model, size_t index) {
  const TfliteOperator& op = model.operators[index];
  std::string place = fmt::format("operators[{}] {}", index, name_of(op.op));
  if (op.op == Builtin::Custom) place += fmt::format(" {}", printable(op.custom));
  if (op.outputs.empty()) return place;
  const TfliteTensor& tensor = model.tensors[static_cast<size_t>(op.outputs[0])];
  return place + fmt::format(" '{}'", printable(tensor.name));
}

}  // namespace qtape::tflite
