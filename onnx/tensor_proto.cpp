#include "qtape/onnx/tensor_proto.h"

#include <optional>
#include <utility>

#include "qtape/core/byte_order.h"
#include "qtape/core/half.h"
#include "qtape/core/printable.h"

namespace qtape {
namespace {

void check_count(const onnx::TensorProto& tensor, int64_t elements, int64_t found) {
  require<FormatError>(elements == found, "tensor '{}' has {} elements, its data {}",
                       printable(tensor.name()), elements, found);
}

/// Returns the elements of `tensor`, from raw data of type T or from the field `typed`.
template <class T, class Out, class Typed, class Convert>
std::vector<Out> read(const onnx::TensorProto& tensor, int64_t elements, const Typed& typed,
                      const Convert& convert) {
  std::vector<Out> values;
  if (tensor.has_raw_data()) {
    const std::string& raw = tensor.raw_data();
    require<FormatError>(raw.size() % sizeof(T) == 0,
                         "tensor '{}' has {} bytes of data, elements of {}",
                         printable(tensor.name()), raw.size(), sizeof(T));
    check_count(tensor, elements, static_cast<int64_t>(raw.size() / sizeof(T)));
    values.reserve(static_cast<size_t>(elements));
    for (size_t at = 0; at < raw.size(); at += sizeof(T)) {
      T value;
      read_little_endian(std::as_bytes(std::span(raw).subspan(at, sizeof(T))),
                         std::span(&value, 1));
      values.push_back(convert(value));
    }
    return values;
  }
  check_count(tensor, elements, typed.size());
  values.reserve(static_cast<size_t>(elements));
  for (const auto value : typed) values.push_back(convert(static_cast<T>(value)));
  return values;
}

/// Returns 4-bit elements, two per byte, first in the low bits.
std::vector<int64_t> read_4_bits(const onnx::TensorProto& tensor, int64_t elements) {
  std::string raw = tensor.raw_data();
  if (!tensor.has_raw_data()) {
    for (const int32_t each : tensor.int32_data()) raw.push_back(static_cast<char>(each));
  }
  require<FormatError>(std::ssize(raw) == elements / 2 + elements % 2,
                       "tensor '{}' has {} bytes of data, {} elements of 4 bits",
                       printable(tensor.name()), raw.size(), elements);
  std::vector<int64_t> values;
  values.reserve(static_cast<size_t>(elements));
  for (int64_t i = 0; i < elements; ++i) {
    const int byte = static_cast<uint8_t>(raw[static_cast<size_t>(i / 2)]);
    const int bits = i % 2 == 0 ? byte & 15 : byte >> 4;
    const bool negative = tensor.data_type() == onnx_int4 && bits >= 8;
    values.push_back(negative ? bits - 16 : bits);
  }
  return values;
}

/// Returns `elements` floats; empty if the tensor has no floats.
std::optional<std::vector<float>> read_floats(const onnx::TensorProto& tensor,
                                              int64_t elements) {
  using Proto = onnx::TensorProto;
  const auto to_float = [](auto v) { return static_cast<float>(v); };
  switch (tensor.data_type()) {
    case Proto::FLOAT:
      return read<float, float>(tensor, elements, tensor.float_data(), to_float);
    case Proto::DOUBLE:
      return read<double, float>(tensor, elements, tensor.double_data(), to_float);
    case Proto::FLOAT16:
      return read<uint16_t, float>(tensor, elements, tensor.int32_data(), [](uint16_t bits) {
        return Storage<Half>::load(Half{bits});
      });
    default:
      return std::nullopt;
  }
}

std::vector<int64_t> read_integers(const onnx::TensorProto& tensor, int64_t elements) {
  using Proto = onnx::TensorProto;
  const auto of = [&]<class T>(const auto& typed) {
    return read<T, int64_t>(tensor, elements, typed,
                            [](auto v) { return static_cast<int64_t>(v); });
  };
  switch (tensor.data_type()) {
    case Proto::INT64:
      return of.operator()<int64_t>(tensor.int64_data());
    case Proto::INT32:
      return of.operator()<int32_t>(tensor.int32_data());
    case Proto::INT16:
      return of.operator()<int16_t>(tensor.int32_data());
    case Proto::INT8:
      return of.operator()<int8_t>(tensor.int32_data());
    case Proto::UINT16:
      return of.operator()<uint16_t>(tensor.int32_data());
    case Proto::UINT8:
    case Proto::BOOL:
      return of.operator()<uint8_t>(tensor.int32_data());
    case Proto::UINT32:
      return of.operator()<uint32_t>(tensor.uint64_data());
    case onnx_uint4:
    case onnx_int4:
      return read_4_bits(tensor, elements);
    default:
      fail<FormatError>("tensor '{}' has elements of type {}, which is not supported",
                        printable(tensor.name()), tensor.data_type());
  }
}

}  // namespace

int64_t data_bytes(const onnx::TensorProto& tensor) {
  using Proto = onnx::TensorProto;
  for (const int64_t extent : tensor.dims()) {
    require<FormatError>(extent >= 0, "it has the extent {}", extent);
  }
  const Shape shape(std::vector<int64_t>(tensor.dims().begin(), tensor.dims().end()));
  const int64_t n = shape.elements();
  switch (tensor.data_type()) {
    case Proto::DOUBLE:
    case Proto::INT64:
      return 8 * n;
    case Proto::FLOAT:
    case Proto::INT32:
    case Proto::UINT32:
      return 4 * n;
    case Proto::FLOAT16:
    case Proto::INT16:
    case Proto::UINT16:
      return 2 * n;
    case Proto::INT8:
    case Proto::UINT8:
    case Proto::BOOL:
      return n;
    case onnx_uint4:
    case onnx_int4:
      return n / 2 + n % 2;
    default:
      fail<FormatError>("elements of type {} are not supported", tensor.data_type());
  }
}

OnnxConstant read_constant(const onnx::TensorProto& tensor) {
  const std::string name = printable(tensor.name());
  require<FormatError>(tensor.data_location() != onnx::TensorProto::EXTERNAL,
                       "tensor '{}' keeps its data in another file", name);
  for (const int64_t extent : tensor.dims()) {
    require<FormatError>(extent >= 0, "tensor '{}' has the extent {}", name, extent);
  }
  OnnxConstant result;
  result.shape = Shape(std::vector<int64_t>(tensor.dims().begin(), tensor.dims().end()));
  const int64_t n = result.shape.elements();
  if (auto floats = read_floats(tensor, n)) {
    result.floats = std::move(*floats);
    return result;
  }
  result.is_float = false;
  result.type = tensor.data_type();
  result.integers = read_integers(tensor, n);
  return result;
}

}  // namespace qtape
