// Byte order: files and hashes are little-endian on every processor.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace qtape {

inline constexpr bool is_little_endian = std::endian::native == std::endian::little;

/// Reverses the bytes of each element of `size` bytes.
inline void swap_bytes(std::span<std::byte> data, int64_t size) {
  for (auto at = data.begin(); at != data.end(); at += size) std::reverse(at, at + size);
}

/// Converts elements of `size` bytes each from little-endian to native order, or back.
inline void convert_little_endian(std::span<std::byte> data, int64_t size) {
  if constexpr (!is_little_endian) swap_bytes(data, size);
}

/// Elements of `size` bytes each in little-endian order. Refers to `data` where that is the
/// native order, otherwise to a copy.
class LittleEndian {
 public:
  LittleEndian(std::span<const std::byte> data, int64_t size) : bytes_(data) {
    if constexpr (!is_little_endian) {
      swapped_.assign(data.begin(), data.end());
      swap_bytes(swapped_, size);
      bytes_ = swapped_;
    }
  }
  template <class T>
  explicit LittleEndian(std::span<const T> values)
      : LittleEndian(std::as_bytes(values), sizeof(T)) {}
  LittleEndian(const LittleEndian&) = delete;
  LittleEndian& operator=(const LittleEndian&) = delete;

  std::span<const std::byte> bytes() const { return bytes_; }
  std::vector<std::byte> copy() const { return {bytes_.begin(), bytes_.end()}; }

 private:
  std::span<const std::byte> bytes_;
  std::vector<std::byte> swapped_;
};

/// Copies little-endian elements to `values`. Bytes after the data are unchanged.
template <class T>
void read_little_endian(std::span<const std::byte> data, std::span<T> values) {
  if (data.empty()) return;
  std::memcpy(values.data(), data.data(), data.size());
  convert_little_endian(std::as_writable_bytes(values), sizeof(T));
}

}  // namespace qtape
