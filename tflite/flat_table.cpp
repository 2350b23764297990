#include "qtape/tflite/flat_table.h"

#include <flatbuffers/flatbuffers.h>
#include <fmt/format.h>

#include <bit>
#include <cstring>

#include "qtape/core/aligned.h"
#include "qtape/core/byte_order.h"
#include "qtape/core/error.h"

namespace qtape::tflite {

namespace flat = flatbuffers;

/// The bytes of a file, aligned as a file in memory is, and how many of them may still be read.
struct FlatBuffer {
  std::vector<uint64_t> aligned;  // empty where the bytes are aligned already
  const uint8_t* data;
  size_t size;
  flat::Verifier verifier;
  int64_t left;

  explicit FlatBuffer(std::string_view bytes)
      : aligned(copy_of(bytes)),
        data(aligned.empty() ? reinterpret_cast<const uint8_t*>(bytes.data())
                             : reinterpret_cast<const uint8_t*>(aligned.data())),
        size(bytes.size()),
        verifier(data, size, 64, std::numeric_limits<flat::uoffset_t>::max(), true),
        left(4 * static_cast<int64_t>(size) + 4096) {}

 private:
  static std::vector<uint64_t> copy_of(std::string_view bytes) {
    if (reinterpret_cast<uintptr_t>(bytes.data()) % sizeof(uint64_t) == 0) return {};
    std::vector<uint64_t> copy(bytes.size() / sizeof(uint64_t) + 1);
    std::memcpy(copy.data(), bytes.data(), bytes.size());
    return copy;
  }
};

namespace {

flat::voffset_t offset_of(FlatField field) {
  return static_cast<flat::voffset_t>(4 + 2 * field.number);
}

const flat::Table* table_at(const void* table) {
  return static_cast<const flat::Table*>(table);
}

}  // namespace

FlatTable::FlatTable(std::shared_ptr<FlatBuffer> buffer, const void* table, std::string place)
    : buffer_(std::move(buffer)), table_(table), place_(std::move(place)) {
  constexpr int64_t least = 8;  // bytes of a table and its offset
  const bool starts = table_at(table_)->VerifyTableStart(buffer_->verifier);
  buffer_->verifier.EndTable();
  buffer_->left -= least;
  require<FormatError>(starts, "{}: the table lies outside of the file",
                       place_.empty() ? "root" : place_);
  require<FormatError>(buffer_->left >= 0, "{}: tables overlap", place_);
}

FlatTable FlatTable::root(std::string_view bytes, const char* wanted) {
  require<FormatError>(bytes.size() >= 12 && bytes.substr(4, 4) == wanted,
                       "expected a FlatBuffer with the identifier {} at byte 4", wanted);
  require<FormatError>(bytes.size() < FLATBUFFERS_MAX_BUFFER_SIZE,
                       "the file has {} bytes, expected fewer than 2 GiB", bytes.size());
  auto buffer = std::make_shared<FlatBuffer>(bytes);
  const size_t offset = buffer->verifier.VerifyOffset(0);
  require<FormatError>(offset != 0, "the root lies outside of the file");
  const uint8_t* table = buffer->data + offset;
  return {std::move(buffer), table, {}};
}

std::string FlatTable::place_of(FlatField field) const {
  return place_.empty() ? std::string(field.name) : fmt::format("{}.{}", place_, field.name);
}

template <class T>
T FlatTable::number(FlatField field, T otherwise) const {
  using Stored = std::conditional_t<std::is_same_v<T, bool>, uint8_t, T>;
  require<FormatError>(
      table_at(table_)->VerifyField<Stored>(buffer_->verifier, offset_of(field), sizeof(T)),
      "{}: lies outside of the file", place_of(field));
  const auto value = table_at(table_)->GetField<Stored>(offset_of(field), otherwise);
  return static_cast<T>(value);
}

/// The elements of a vector of scalars.
template <class T>
std::span<const std::byte> FlatTable::elements(FlatField field) const {
  const flat::voffset_t offset = offset_of(field);
  const flat::Verifier& verifier = buffer_->verifier;
  require<FormatError>(table_at(table_)->VerifyOffset(verifier, offset),
                       "{}: lies outside of the file", place_of(field));
  const auto* vector = table_at(table_)->GetPointer<const flat::Vector<T>*>(offset);
  if (vector == nullptr) return {};
  const auto at = static_cast<size_t>(reinterpret_cast<const uint8_t*>(vector) - buffer_->data);
  require<FormatError>(verifier.VerifyVector(vector) &&
                           verifier.VerifyAlignment(at + sizeof(flat::uoffset_t), sizeof(T)),
                       "{}: lies outside of the file", place_of(field));
  const auto bytes = std::as_bytes(std::span(vector->Data(), vector->size() * sizeof(T)));
  buffer_->left -= std::ssize(bytes);
  require<FormatError>(buffer_->left >= 0, "{}: vectors overlap", place_of(field));
  return bytes;
}

template <class T>
std::vector<T> FlatTable::numbers(FlatField field) const {
  const auto bytes = elements<T>(field);
  std::vector<T> values(bytes.size() / sizeof(T));
  read_little_endian(bytes, std::span(values));
  return values;
}

std::span<const std::byte> FlatTable::bytes(FlatField field) const {
  return elements<uint8_t>(field);
}

std::string FlatTable::text(FlatField field) const {
  const auto bytes = elements<uint8_t>(field);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::optional<FlatTable> FlatTable::table(FlatField field) const {
  require<FormatError>(table_at(table_)->VerifyOffset(buffer_->verifier, offset_of(field)),
                       "{}: lies outside of the file", place_of(field));
  const auto* found = table_at(table_)->GetPointer<const flat::Table*>(offset_of(field));
  if (found == nullptr) return std::nullopt;
  return FlatTable(buffer_, found, place_of(field));
}

std::vector<FlatTable> FlatTable::tables(FlatField field) const {
  const auto offsets = elements<flat::uoffset_t>(field);
  std::vector<FlatTable> found;
  found.reserve(offsets.size() / sizeof(flat::uoffset_t));
  for (size_t i = 0; i * sizeof(flat::uoffset_t) < offsets.size(); ++i) {
    const auto* from =
        reinterpret_cast<const uint8_t*>(offsets.data()) + i * sizeof(flat::uoffset_t);
    const std::string place = fmt::format("{}[{}]", place_of(field), i);
    const size_t offset =
        buffer_->verifier.VerifyOffset(static_cast<size_t>(from - buffer_->data));
    require<FormatError>(offset != 0, "{}: lies outside of the file", place);
    found.push_back(FlatTable(buffer_, from + offset, place));
  }
  return found;
}

template bool FlatTable::number(FlatField, bool) const;
template int8_t FlatTable::number(FlatField, int8_t) const;
template uint8_t FlatTable::number(FlatField, uint8_t) const;
template int32_t FlatTable::number(FlatField, int32_t) const;
template uint32_t FlatTable::number(FlatField, uint32_t) const;
template uint64_t FlatTable::number(FlatField, uint64_t) const;
template float FlatTable::number(FlatField, float) const;
template std::vector<int32_t> FlatTable::numbers(FlatField) const;
template std::vector<int64_t> FlatTable::numbers(FlatField) const;
template std::vector<float> FlatTable::numbers(FlatField) const;

}  // namespace qtape::tflite
