// Reading of models.
#include "qtape/tflite/schema.h"

#include <fmt/format.h>

#include "qtape/core/error.h"
#include "qtape/tflite/flat_table.h"

namespace qtape::tflite {
namespace {

/// Names beyond are cut: many tables may share one.
constexpr size_t longest_name = 1024;

template <class T>
void read_option(const FlatTable& table, FlatField field, T& value) {
  if constexpr (std::is_enum_v<T>) {
    using Number = std::underlying_type_t<T>;
    value = static_cast<T>(table.number<Number>(field, static_cast<Number>(value)));
  } else if constexpr (std::is_same_v<T, std::vector<int32_t>>) {
    value = table.numbers<int32_t>(field);
  } else {
    value = table.number<T>(field, value);
  }
}

/// Reads the options of the alternative with this union type, from I on.
template <size_t I = 1>
Options options_of(uint8_t union_type, const FlatTable& table) {
  if constexpr (I == std::variant_size_v<Options>) {
    return {};
  } else {
    using O = std::variant_alternative_t<I, Options>;
    if (O::union_type != union_type) return options_of<I + 1>(union_type, table);
    O options;
    std::apply(
        [&](const auto&... each) {
          (read_option(table, {each.number, each.name}, options.*each.member), ...);
        },
        O::fields());
    return options;
  }
}

/// Throws unless each index names one of `count` items or, with `optional`, is -1.
void check_indices(std::span<const int32_t> indices, size_t count, bool optional,
                   const std::string& place, std::string_view items) {
  for (const int32_t each : indices) {
    require<FormatError>(
        (optional && each == -1) || (each >= 0 && static_cast<size_t>(each) < count),
        "{}: {} is not one of {} {}", place, each, count, items);
  }
}

TfliteTensor tensor_of(const FlatTable& table, size_t buffers) {
  TfliteTensor tensor;
  tensor.shape = table.numbers<int32_t>({0, "shape"});
  tensor.type = static_cast<TfliteType>(table.number<int8_t>({1, "type"}, 0));
  tensor.buffer = table.number<uint32_t>({2, "buffer"}, 0);
  tensor.name = table.text({3, "name"}).substr(0, longest_name);
  tensor.is_variable = table.number<bool>({5, "is_variable"}, false);
  require<FormatError>(tensor.buffer < buffers, "{}.buffer: {} is not one of {} buffers",
                       table.place(), tensor.buffer, buffers);
  require<FormatError>(!table.table({6, "sparsity"}), "{}: is sparse, expected a dense tensor",
                       table.place());
  const auto quantization = table.table({4, "quantization"});
  if (!quantization) return tensor;
  tensor.scales = quantization->numbers<float>({2, "scale"});
  tensor.zero_points = quantization->numbers<int64_t>({3, "zero_point"});
  tensor.quantized_dimension = quantization->number<int32_t>({6, "quantized_dimension"}, 0);
  const uint8_t details = quantization->number<uint8_t>({4, "details_type"}, 0);
  require<FormatError>(details <= 1, "{}.quantization: has blocks, expected scales of an axis",
                       table.place());
  require<FormatError>(
      tensor.zero_points.empty() || tensor.zero_points.size() == tensor.scales.size(),
      "{}.quantization: has {} scales and {} zero points, expected equal numbers",
      table.place(), tensor.scales.size(), tensor.zero_points.size());
  return tensor;
}

/// Code, version and custom name of operators.
TfliteOperator code_of(const FlatTable& table) {
  TfliteOperator code;
  const int32_t narrow = table.number<int8_t>({0, "deprecated_builtin_code"}, 0);
  code.op =
      static_cast<Builtin>(std::max(narrow, table.number<int32_t>({3, "builtin_code"}, 0)));
  code.custom = table.text({1, "custom_code"}).substr(0, longest_name);
  code.version = table.number<int32_t>({2, "version"}, 1);
  return code;
}

TfliteOperator operator_of(const FlatTable& table, std::span<const TfliteOperator> codes,
                           size_t tensors) {
  const uint32_t index = table.number<uint32_t>({0, "opcode_index"}, 0);
  require<FormatError>(index < codes.size(), "{}.opcode_index: {} is not one of {} codes",
                       table.place(), index, codes.size());
  TfliteOperator made = codes[index];
  made.inputs = table.numbers<int32_t>({1, "inputs"});
  made.outputs = table.numbers<int32_t>({2, "outputs"});
  check_indices(made.inputs, tensors, true, table.place() + ".inputs", "tensors");
  check_indices(made.outputs, tensors, false, table.place() + ".outputs", "tensors");
  const uint8_t type = table.number<uint8_t>({3, "builtin_options_type"}, 0);
  if (const auto options = table.table({4, "builtin_options"})) {
    made.options = options_of(type, *options);
    made.has_other_options = std::holds_alternative<std::monostate>(made.options);
  }
  return made;
}

std::vector<std::byte> data_of(const FlatTable& table, std::string_view file) {
  const uint64_t offset = table.number<uint64_t>({1, "offset"}, 0);
  const uint64_t size = table.number<uint64_t>({2, "size"}, 0);
  if (offset <= 1) {
    const auto data = table.bytes({0, "data"});
    return {data.begin(), data.end()};
  }
  require<FormatError>(offset <= file.size() && size <= file.size() - offset,
                       "{}: {} bytes from {} on lie outside of the file of {} bytes",
                       table.place(), size, offset, file.size());
  const auto* data = reinterpret_cast<const std::byte*>(file.data()) + offset;
  return {data, data + size};
}

void read_graph(const FlatTable& graph, std::span<const TfliteOperator> codes,
                TfliteModel& model) {
  for (const FlatTable& each : graph.tables({0, "tensors"})) {
    model.tensors.push_back(tensor_of(each, model.buffers.size()));
  }
  model.inputs = graph.numbers<int32_t>({1, "inputs"});
  model.outputs = graph.numbers<int32_t>({2, "outputs"});
  const size_t tensors = model.tensors.size();
  check_indices(model.inputs, tensors, false, graph.place() + ".inputs", "tensors");
  check_indices(model.outputs, tensors, false, graph.place() + ".outputs", "tensors");
  for (const FlatTable& each : graph.tables({3, "operators"})) {
    model.operators.push_back(operator_of(each, codes, tensors));
  }
}

}  // namespace

TfliteModel parse_model(std::string_view bytes) {
  const FlatTable root = FlatTable::root(bytes, identifier);
  const uint32_t version = root.number<uint32_t>({0, "version"}, 0);
  require<FormatError>(version == schema_version, "version: is {}, expected {}", version,
                       schema_version);
  TfliteModel model;
  model.description = root.text({3, "description"});
  int64_t left = static_cast<int64_t>(bytes.size()) * 4;
  for (const FlatTable& each : root.tables({4, "buffers"})) {
    model.buffers.push_back(data_of(each, bytes));
    left -= std::ssize(model.buffers.back());
    require<FormatError>(left >= 0, "{}: buffers overlap", each.place());
  }
  std::vector<TfliteOperator> codes;
  for (const FlatTable& each : root.tables({1, "operator_codes"})) {
    codes.push_back(code_of(each));
  }
  const auto graphs = root.tables({2, "subgraphs"});
  require<FormatError>(graphs.size() == 1, "subgraphs: there are {}, expected 1",
                       graphs.size());
  read_graph(graphs[0], codes, model);
  return model;
}

std::optional<DType> code_type(TfliteType type) {
  if (type == TfliteType::Int8) return DType::S8;
  if (type == TfliteType::Int16) return DType::S16;
  return std::nullopt;
}

std::optional<TfliteType> type_of_codes(DType dtype) {
  if (dtype == DType::S8) return TfliteType::Int8;
  if (dtype == DType::S16) return TfliteType::Int16;
  return std::nullopt;
}

std::string name_of(TfliteType type) {
  static constexpr std::array<std::string_view, 23> names = {
      "FLOAT32",  "FLOAT16",  "INT32",     "UINT8",         "INT64",      "STRING",
      "BOOL",     "INT16",    "COMPLEX64", "INT8",          "FLOAT64",    "COMPLEX128",
      "UINT64",   "RESOURCE", "VARIANT",   "UINT32",        "UINT16",     "INT4",
      "BFLOAT16", "INT2",     "UINT4",     "FLOAT8_E4M3FN", "FLOAT8_E5M2"};
  const auto number = static_cast<size_t>(type);
  return number < names.size() ? std::string(names[number]) : fmt::format("type {}", number);
}

}  // namespace qtape::tflite
