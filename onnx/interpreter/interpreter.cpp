#include "qtape/onnx/interpreter/interpreter.h"

#include "qtape/core/error.h"
#include "qtape/core/printable.h"
#include "qtape/onnx/interpreter/interpreter_ops.h"

namespace qtape {
namespace {

OnnxArray array_of(const onnx::TensorProto& tensor) {
  using Proto = onnx::TensorProto;
  OnnxConstant constant = read_constant(tensor);
  const auto extents = constant.shape.extents();
  OnnxArray result{{extents.begin(), extents.end()}, {}};
  const auto narrowed = [&]<class T>(T) {
    result.data = std::vector<T>(constant.integers.begin(), constant.integers.end());
    return result;
  };
  switch (tensor.data_type()) {
    case Proto::FLOAT:
      result.data = std::move(constant.floats);
      return result;
    case Proto::INT8:
    case onnx_int4:
      return narrowed(int8_t{});
    case Proto::UINT8:
      return narrowed(uint8_t{});
    case Proto::INT16:
      return narrowed(int16_t{});
    case Proto::UINT16:
      return narrowed(uint16_t{});
    case Proto::INT32:
      return narrowed(int32_t{});
    case Proto::INT64:
      return narrowed(int64_t{});
    default:
      fail<FormatError>("tensor '{}' has the element type {}, which is not supported",
                        printable(tensor.name()), tensor.data_type());
  }
}

}  // namespace

int64_t onnx_elements(const std::vector<int64_t>& shape) {
  int64_t result = 1;
  for (int64_t each : shape) result *= each;
  return result;
}

int64_t OnnxArray::elements() const { return onnx_elements(shape); }

OnnxInterpreter::OnnxInterpreter(std::string_view bytes) {
  const bool parsed = model_->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
  require<FormatError>(parsed && model_->has_graph(), "is not an ONNX model");
  for (const onnx::TensorProto& each : model_->graph().initializer()) {
    constants_[each.name()] = array_of(each);
  }
}

std::vector<std::string> OnnxInterpreter::inputs() const {
  std::vector<std::string> names;
  for (const auto& each : model_->graph().input()) {
    if (!constants_.contains(each.name())) names.push_back(each.name());
  }
  return names;
}

std::vector<std::string> OnnxInterpreter::outputs() const {
  std::vector<std::string> names;
  for (const auto& each : model_->graph().output()) names.push_back(each.name());
  return names;
}

void OnnxInterpreter::set(const std::string& name, OnnxArray value) {
  const size_t given = std::visit([](const auto& data) { return data.size(); }, value.data);
  require<FormatError>(static_cast<int64_t>(given) == value.elements(),
                       "'{}' has {} elements, its shape {}", printable(name), given,
                       value.elements());
  values_[name] = std::move(value);
}

void OnnxInterpreter::run() {
  for (const onnx::NodeProto& proto : model_->graph().node()) {
    const OnnxNode node(proto);
    naming<FormatError>(node.describe(), [&] {
      OnnxOperands operands;
      for (int k = 0; k < node.inputs(); ++k) {
        operands.push_back(node.input(k).empty() ? nullptr : &value(node.input(k)));
      }
      values_[node.output(0)] = compute_onnx(node, operands);
    });
  }
}

const OnnxArray& OnnxInterpreter::value(const std::string& name) const {
  const auto constant = constants_.find(name);
  if (constant != constants_.end()) return constant->second;
  const auto found = values_.find(name);
  require<FormatError>(found != values_.end(), "'{}' has no value", printable(name));
  return found->second;
}

}  // namespace qtape
