#include "qtape/io/arrays/npy.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

#include "qtape/core/byte_order.h"
#include "qtape/core/error.h"
#include "qtape/io/arrays/npy_header.h"
#include "qtape/io/files.h"

namespace qtape {
namespace {

/// Converts data in which the first axis varies fastest to row-major order.
std::vector<std::byte> to_rows(const std::vector<std::byte>& data, const Shape& shape,
                               int64_t size) {
  std::vector<std::byte> rows(data.size());
  std::vector<int64_t> strides;  // stride in bytes of each axis in `data`
  for (int64_t stride = size; int64_t extent : shape.extents()) {
    strides.push_back(stride);
    stride *= extent;
  }
  std::vector<int64_t> index(strides.size());
  int64_t from = 0;
  for (size_t to = 0; to < rows.size(); to += static_cast<size_t>(size)) {
    std::memcpy(rows.data() + to, data.data() + from, static_cast<size_t>(size));
    for (size_t axis = index.size(); axis-- > 0;) {
      from += strides[axis];
      if (++index[axis] < shape[static_cast<int>(axis)]) break;
      from -= strides[axis] * index[axis];
      index[axis] = 0;
    }
  }
  return rows;
}

}  // namespace

Tensor parse_npy(std::string_view bytes, std::string_view name) {
  const NpyHeader header = parse_npy_header(bytes, name);
  const std::string_view data = bytes.substr(header.begin);
  Tensor tensor{.type = header.type};
  require<FormatError>(data.size() == static_cast<size_t>(tensor.type.bytes()),
                       "{}: expected {} bytes of {}, got {}", name, tensor.type.bytes(),
                       to_string(tensor.type), data.size());
  const auto raw = std::as_bytes(std::span(data));
  tensor.data.assign(raw.begin(), raw.end());
  if (header.booleans) make_booleans(tensor.data);
  const int64_t size = size_of(header.type.dtype);
  if (header.swapped) swap_bytes(tensor.data, size);
  if (header.columns_first) tensor.data = to_rows(tensor.data, header.type.shape, size);
  return tensor;
}

Tensor read_npy(const std::string& path) {
  return parse_npy(read_file(path, largest_array_file), path);
}

std::string to_npy(const Tensor& tensor) {
  const auto spelling = std::ranges::find(npy_dtypes, tensor.type.dtype, &DTypeSpelling::dtype);
  require<ArgumentError>(spelling != npy_dtypes.end(),
                         ".npy files cannot hold {}: expected another dtype",
                         to_string_view(tensor.type.dtype));
  require<ArgumentError>(std::ssize(tensor.data) == tensor.type.bytes(),
                         "expected {} bytes of {}, got {}", tensor.type.bytes(),
                         to_string(tensor.type), tensor.data.size());
  std::string shape;
  for (int64_t extent : tensor.type.shape.extents()) shape += fmt::format("{}, ", extent);
  if (tensor.type.shape.rank() > 1) shape.resize(shape.size() - 2);
  if (tensor.type.shape.rank() == 1) shape.pop_back();
  const char order = size_of(tensor.type.dtype) == 1 ? '|' : '<';
  std::string header =
      fmt::format("{{'descr': '{}{}', 'fortran_order': False, 'shape': ({}), }}", order,
                  spelling->text, shape);
  // Data start at a multiple of 64 bytes.
  const size_t begin = npy_magic.size() + 4;
  header.append(63 - (begin + header.size()) % 64, ' ');
  header += '\n';
  std::string bytes(npy_magic);
  bytes += {'\x01', '\x00', static_cast<char>(header.size() & 0xff),
            static_cast<char>(header.size() >> 8)};
  bytes += header;
  const LittleEndian data(tensor.data, size_of(tensor.type.dtype));
  bytes.append(reinterpret_cast<const char*>(data.bytes().data()), data.bytes().size());
  return bytes;
}

void write_npy(const std::string& path, const Tensor& tensor) {
  write_file(path, to_npy(tensor));
}

}  // namespace qtape
