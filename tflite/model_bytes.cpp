// Writing of models.
#include <flatbuffers/flatbuffers.h>

#include <algorithm>
#include <map>
#include <type_traits>

#include "qtape/tflite/schema.h"

namespace qtape::tflite {
namespace {

namespace flat = flatbuffers;
using Table = flat::Offset<flat::Table>;

constexpr flat::voffset_t at(int number) {
  return static_cast<flat::voffset_t>(4 + 2 * number);
}

/// A table while it is written; vectors and tables in it come before.
class Fields {
 public:
  explicit Fields(flat::FlatBufferBuilder& to) : to_(to), start_(to.StartTable()) {}

  template <class T>
  void number(int field, T value, T otherwise) {
    to_.AddElement<T>(at(field), value, otherwise);
  }
  template <class T>
  void offset(int field, flat::Offset<T> value) {
    to_.AddOffset(at(field), value);
  }
  Table end() { return Table(to_.EndTable(start_)); }

 private:
  flat::FlatBufferBuilder& to_;
  flat::uoffset_t start_;
};

template <class O>
Table options_table(flat::FlatBufferBuilder& to, const O& options) {
  flat::Offset<flat::Vector<int32_t>> vector;
  std::apply(
      [&](const auto&... each) {
        const auto before = [&](const auto& value) {
          if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::vector<int32_t>>) {
            vector = to.CreateVector(value);
          }
        };
        (before(options.*each.member), ...);
      },
      O::fields());
  Fields fields(to);
  const O defaults;
  std::apply(
      [&](const auto&... each) {
        const auto write = [&](int number, const auto& value, const auto& otherwise) {
          using T = std::decay_t<decltype(value)>;
          if constexpr (std::is_same_v<T, std::vector<int32_t>>) {
            fields.offset(number, vector);
          } else if constexpr (std::is_enum_v<T>) {
            fields.number(number, static_cast<int8_t>(value), static_cast<int8_t>(otherwise));
          } else if constexpr (std::is_same_v<T, bool>) {
            fields.number(number, static_cast<uint8_t>(value), static_cast<uint8_t>(otherwise));
          } else {
            fields.number(number, value, otherwise);
          }
        };
        (write(each.number, options.*each.member, defaults.*each.member), ...);
      },
      O::fields());
  return fields.end();
}

Table quantization_table(flat::FlatBufferBuilder& to, const TfliteTensor& tensor) {
  const auto scales = to.CreateVector(tensor.scales);
  const auto zeros = to.CreateVector(tensor.zero_points);
  Fields fields(to);
  fields.offset(2, scales);
  fields.offset(3, zeros);
  fields.number<int32_t>(6, tensor.quantized_dimension, 0);
  return fields.end();
}

Table tensor_table(flat::FlatBufferBuilder& to, const TfliteTensor& tensor) {
  const auto shape = to.CreateVector(tensor.shape);
  const auto name = to.CreateString(tensor.name);
  const bool quantized = !tensor.scales.empty();
  const Table quantization = quantized ? quantization_table(to, tensor) : Table();
  Fields fields(to);
  fields.offset(0, shape);
  fields.number<int8_t>(1, static_cast<int8_t>(tensor.type), 0);
  fields.number<uint32_t>(2, tensor.buffer, 0);
  fields.offset(3, name);
  if (quantized) fields.offset(4, quantization);
  return fields.end();
}

/// Indices of operator codes, each once.
using Codes = std::map<std::pair<Builtin, int32_t>, uint32_t>;

Table operator_table(flat::FlatBufferBuilder& to, const TfliteOperator& op,
                     const Codes& codes) {
  const auto inputs = to.CreateVector(op.inputs);
  const auto outputs = to.CreateVector(op.outputs);
  uint8_t type = 0;
  const Table options = std::visit(
      [&](const auto& each) {
        using O = std::decay_t<decltype(each)>;
        if constexpr (std::is_same_v<O, std::monostate>) {
          return Table();
        } else {
          type = O::union_type;
          return options_table(to, each);
        }
      },
      op.options);
  Fields fields(to);
  fields.number<uint32_t>(0, codes.at({op.op, op.version}), 0);
  fields.offset(1, inputs);
  fields.offset(2, outputs);
  if (type != 0) {
    fields.number<uint8_t>(3, type, 0);
    fields.offset(4, options);
  }
  return fields.end();
}

Table graph_table(flat::FlatBufferBuilder& to, const TfliteModel& model, const Codes& codes) {
  std::vector<Table> tensors, operators;
  for (const TfliteTensor& each : model.tensors) tensors.push_back(tensor_table(to, each));
  for (const TfliteOperator& each : model.operators) {
    operators.push_back(operator_table(to, each, codes));
  }
  const auto all_tensors = to.CreateVector(tensors);
  const auto inputs = to.CreateVector(model.inputs);
  const auto outputs = to.CreateVector(model.outputs);
  const auto all_operators = to.CreateVector(operators);
  const auto name = to.CreateString("main");
  Fields fields(to);
  fields.offset(0, all_tensors);
  fields.offset(1, inputs);
  fields.offset(2, outputs);
  fields.offset(3, all_operators);
  fields.offset(4, name);
  return fields.end();
}

Table code_table(flat::FlatBufferBuilder& to, Builtin op, int32_t version) {
  constexpr int32_t narrow_end = 127;  // the wide field holds the code
  Fields fields(to);
  const auto code = static_cast<int32_t>(op);
  fields.number<int8_t>(0, static_cast<int8_t>(std::min(code, narrow_end)), 0);
  fields.number<int32_t>(2, version, 1);
  fields.number<int32_t>(3, code, 0);
  return fields.end();
}

Table buffer_table(flat::FlatBufferBuilder& to, const std::vector<std::byte>& bytes) {
  constexpr size_t alignment = 16;
  flat::Offset<flat::Vector<uint8_t>> data;
  if (!bytes.empty()) {
    to.ForceVectorAlignment(bytes.size(), sizeof(uint8_t), alignment);
    data = to.CreateVector(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  }
  Fields fields(to);
  if (!bytes.empty()) fields.offset(0, data);
  return fields.end();
}

}  // namespace

std::string model_bytes(const TfliteModel& model) {
  flat::FlatBufferBuilder to;
  Codes codes;
  std::vector<Table> code_tables, buffers;
  for (const TfliteOperator& each : model.operators) {
    const auto [found, added] =
        codes.try_emplace({each.op, each.version}, static_cast<uint32_t>(codes.size()));
    if (added) code_tables.push_back(code_table(to, each.op, each.version));
  }
  for (const auto& each : model.buffers) buffers.push_back(buffer_table(to, each));
  const std::vector<Table> graphs = {graph_table(to, model, codes)};
  const auto all_codes = to.CreateVector(code_tables);
  const auto all_graphs = to.CreateVector(graphs);
  const auto description = to.CreateString(model.description);
  const auto all_buffers = to.CreateVector(buffers);
  Fields fields(to);
  fields.number<uint32_t>(0, schema_version, 0);
  fields.offset(1, all_codes);
  fields.offset(2, all_graphs);
  fields.offset(3, description);
  fields.offset(4, all_buffers);
  to.Finish(fields.end(), identifier);
  return {reinterpret_cast<const char*>(to.GetBufferPointer()), to.GetSize()};
}

}  // namespace qtape::tflite
