#include "qtape/io/arrays/npy_header.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "qtape/core/byte_order.h"
#include "qtape/core/printable.h"
#include "qtape/io/arrays/npy.h"

namespace qtape {
namespace {

/// Parses the header dictionary, a Python literal: {'descr': '<f4', 'fortran_order': False,
/// 'shape': (3, 4), }.
class HeaderReader {
 public:
  HeaderReader(std::string_view text, std::string_view name) : text_(text), name_(name) {}

  NpyHeader read() {
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
    header_.type.shape = *shape_;
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
    header_.type.dtype = spelling->dtype;
    header_.booleans = spelling->text == "b1";
    constexpr char own = is_little_endian ? '<' : '>';
    header_.swapped = (order == '<' || order == '>') && order != own;
  }

  std::string_view text_;
  std::string_view name_;
  size_t at_ = 0;
  NpyHeader header_;
  bool has_dtype_ = false;
  std::optional<bool> columns_first_;
  std::optional<Shape> shape_;
};

}  // namespace

NpyHeader parse_npy_header(std::string_view bytes, std::string_view name) {
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
  NpyHeader header = HeaderReader(bytes.substr(begin, length), name).read();
  header.begin = begin + length;
  return header;
}

}  // namespace qtape
