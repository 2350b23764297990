#include "qtape/io/arrays/npy.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstring>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "qtape/core/printable.h"
#include "qtape/io/arrays/elements.h"
#include "qtape/io/files.h"

namespace qtape {
namespace {

/// Spellings without the byte order.
constexpr std::array<DTypeSpelling, 10> npy_dtypes = {{{"f4", DType::F32},
                                                       {"f8", DType::F64},
                                                       {"f2", DType::F16},
                                                       {"i8", DType::S64},
                                                       {"i4", DType::S32},
                                                       {"i2", DType::S16},
                                                       {"u2", DType::U16},
                                                       {"i1", DType::S8},
                                                       {"u1", DType::U8},
                                                       {"b1", DType::U8}}};

struct Header {
  DType dtype = DType::F32;
  bool swapped = false;  // bytes are in non-native order
  bool booleans = false;
  bool columns_first = false;
  Shape shape;
};

/// Parses the header dictionary, a Python literal: {'descr': '<f4', 'fortran_order': False,
/// 'shape': (3, 4), }.
class HeaderReader {
 public:
  HeaderReader(std::string_view text, std::string_view name) : text_(text), name_(name) {}

  Header read() {
    expect('{');
    while (!take('}')) {
      skip_spaces();
      const size_t key_at = at_;
      const std::string_view key = quoted();
      expect(':');
      const bool again = (key == "descr" && has_dtype_) ||
                         (key == "fortran_order" && columns_first_) ||
                         (key == "shape" && shape_);
      if (again) refuse_at(key_at, "each key only once", fmt::format("'{}' again", key));
      if (key == "descr") {
        read_dtype();
      } else if (key == "fortran_order") {
        columns_first_ = truth();
      } else if (key == "shape") {
        shape_ = tuple();
      } else {
        refuse_at(key_at, "'descr', 'fortran_order' or 'shape'",
                  fmt::format("'{}'", printable(key)));
      }
      if (!take(',')) {
        expect('}');
        break;
      }
    }
    skip_spaces();
    if (at_ != text_.size()) refuse("the end of the header", rest());
    if (!has_dtype_) refuse("a key 'descr'", "none");
    if (!columns_first_) refuse("a key 'fortran_order'", "none");
    if (!shape_) refuse("a key 'shape'", "none");
    header_.columns_first = *columns_first_;
    header_.shape = *shape_;
    return header_;
  }

 private:
  [[noreturn]] void refuse_at(size_t at, std::string_view expected,
                              std::string_view got) const {
    fail<FormatError>("{}: byte {} of the header: expected {}, got {}", name_, at, expected,
                      got);
  }
  [[noreturn]] void refuse(std::string_view expected, std::string_view got) const {
    refuse_at(at_, expected, got);
  }
  std::string rest() const {
    const std::string_view left = text_.substr(at_);
    return left.empty() ? "its end" : fmt::format("'{}'", printable(left.substr(0, 20)));
  }
  void skip_spaces() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }
  bool take(char c) {
    skip_spaces();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!take(c)) refuse(fmt::format("'{}'", c), rest());
  }
  bool take_word(std::string_view word) {
    skip_spaces();
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }

  std::string_view quoted() {
    const char quote = take('"') ? '"' : '\'';
    if (quote == '\'') expect('\'');
    const size_t end = text_.find(quote, at_);
    if (end == std::string_view::npos) refuse("a quoted string", rest());
    const size_t begin = std::exchange(at_, end + 1);
    return text_.substr(begin, end - begin);
  }

  bool truth() {
    if (take_word("True")) return true;
    if (!take_word("False")) refuse("True or False", rest());
    return false;
  }

  Shape tuple() {
    std::vector<int64_t> extents;
    expect('(');
    while (!take(')')) {
      skip_spaces();
      int64_t extent = -1;
      const auto [end, error] =
          std::from_chars(text_.data() + at_, text_.data() + text_.size(), extent);
      if (error != std::errc{} || extent < 0) refuse("an extent", rest());
      at_ = static_cast<size_t>(end - text_.data());
      take_word("L");  // suffix written by Python 2
      extents.push_back(extent);
      if (!take(',')) {
        expect(')');
        break;
      }
    }
    try {
      return Shape(extents);
    } catch (const GraphError& error) {
      fail<FormatError>("{}: shape: {}", name_, error.what());
    }
  }

  void read_dtype() {
    has_dtype_ = true;
    skip_spaces();
    const size_t begin = at_;
    if (take('[')) refuse_at(begin, "a dtype such as '<f4'", "a record dtype");
    const std::string_view text = quoted();
    const char order = text.empty() ? ' ' : text[0];
    const auto spelling = std::ranges::find(
        npy_dtypes, text.substr(std::min<size_t>(1, text.size())), &DTypeSpelling::text);
    if (spelling == npy_dtypes.end() ||
        std::string_view("<>|=").find(order) == std::string_view::npos) {
      refuse_at(begin, "a dtype of floats or integers such as '<f4'",
                fmt::format("'{}'", printable(text)));
    }
    header_.dtype = spelling->dtype;
    header_.booleans = spelling->text == "b1";
    constexpr char own = std::endian::native == std::endian::little ? '<' : '>';
    header_.swapped = (order == '<' || order == '>') && order != own;
  }

  std::string_view text_;
  std::string_view name_;
  size_t at_ = 0;
  Header header_;
  bool has_dtype_ = false;
  std::optional<bool> columns_first_;
  std::optional<Shape> shape_;
};

void swap_bytes(std::vector<std::byte>& data, int64_t size) {
  for (auto at = data.begin(); at != data.end(); at += size) std::reverse(at, at + size);
}

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
  const auto require_bytes = [&](size_t count) {
    require<FormatError>(bytes.size() >= count, "{}: cut off: expected {} bytes, got {}", name,
                         count, bytes.size());
  };
  require<FormatError>(bytes.starts_with(npy_magic.substr(0, bytes.size())) && !bytes.empty(),
                       "{}: expected a .npy file, which begins with \\x93NUMPY", name);
  require_bytes(npy_magic.size() + 2);
  const int version = static_cast<uint8_t>(bytes[npy_magic.size()]);
  require<FormatError>(version >= 1 && version <= 3, "{}: expected version 1, 2 or 3, got {}",
                       name, version);
  const size_t length_bytes = version == 1 ? 2 : 4;
  const size_t begin = npy_magic.size() + 2 + length_bytes;
  require_bytes(begin);
  const size_t length = number_at(bytes, begin - length_bytes, length_bytes);
  require_bytes(begin + length);
  const Header header = HeaderReader(bytes.substr(begin, length), name).read();
  const std::string_view data = bytes.substr(begin + length);
  Tensor tensor{.type = {header.dtype, header.shape}};
  require<FormatError>(data.size() == static_cast<size_t>(tensor.type.bytes()),
                       "{}: expected {} bytes of {}, got {}", name, tensor.type.bytes(),
                       to_string(tensor.type), data.size());
  const auto raw = std::as_bytes(std::span(data));
  tensor.data.assign(raw.begin(), raw.end());
  if (header.booleans) make_booleans(tensor.data);
  const int64_t size = size_of(header.dtype);
  if (header.swapped) swap_bytes(tensor.data, size);
  if (header.columns_first) tensor.data = to_rows(tensor.data, header.shape, size);
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
  bytes.append(reinterpret_cast<const char*>(tensor.data.data()), tensor.data.size());
  return bytes;
}

void write_npy(const std::string& path, const Tensor& tensor) {
  write_file(path, to_npy(tensor));
}

}  // namespace qtape
