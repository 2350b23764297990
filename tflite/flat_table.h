// Tables of a FlatBuffer, read by field number. Each access is checked against the buffer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace qtape::tflite {

/// A field of a table: its number in the schema, and its name for messages.
struct FlatField {
  int number;
  std::string_view name;
};

struct FlatBuffer;

/// A table in a buffer that outlives it. Functions throw FormatError, which begins with the
/// place of the table, for offsets and lengths outside the buffer, and once tables and vectors
/// that share bytes add up to several times the buffer.
class FlatTable {
 public:
  /// Returns the root of `bytes`, which must have the file identifier `wanted`. Throws
  /// FormatError if they do not, or exceed 2 GiB.
  static FlatTable root(std::string_view bytes, const char* wanted);

  /// Returns a scalar, or `otherwise` if the field is missing. T: bool, int8_t, uint8_t,
  /// int32_t, uint32_t, uint64_t or float.
  template <class T>
  T number(FlatField field, T otherwise) const;
  /// Returns a vector of int32_t, int64_t, float or uint8_t; empty if the field is missing.
  template <class T>
  std::vector<T> numbers(FlatField field) const;
  /// Returns the bytes of a vector of uint8_t, which lie in the buffer.
  std::span<const std::byte> bytes(FlatField field) const;
  std::string text(FlatField field) const;
  std::optional<FlatTable> table(FlatField field) const;
  std::vector<FlatTable> tables(FlatField field) const;

  /// Returns `subgraphs[0].tensors[3]`; empty for the root.
  const std::string& place() const { return place_; }
  /// Returns the place of a field.
  std::string place_of(FlatField field) const;

 private:
  FlatTable(std::shared_ptr<FlatBuffer> buffer, const void* table, std::string place);
  template <class T>
  std::span<const std::byte> elements(FlatField field) const;

  std::shared_ptr<FlatBuffer> buffer_;
  const void* table_;
  std::string place_;
};

}  // namespace qtape::tflite
