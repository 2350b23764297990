// Memory for tensors: zeroed and 64-byte aligned, owned by one object.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace qtape {

/// Tensor alignment in bytes.
inline constexpr int64_t alignment = 64;

/// Rounds `bytes` up to the next multiple of `alignment`.
constexpr int64_t aligned_size(int64_t bytes) {
  return (bytes + alignment - 1) / alignment * alignment;
}

/// A zeroed block of bytes, 64-byte aligned. Movable, not copyable. The constructor throws
/// Error if `bytes`, with all other blocks of the process, exceeds the physical memory of the
/// machine or the limit of the control groups, and OutOfMemory if the allocation fails.
class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  explicit AlignedBuffer(int64_t bytes);

  std::byte* data() const { return data_.get(); }
  int64_t size() const { return size_; }
  /// Bytes of all blocks of the process.
  static int64_t in_use();

 private:
  struct Free {
    int64_t size;
    void operator()(std::byte* data) const;
  };
  std::unique_ptr<std::byte, Free> data_;
  int64_t size_ = 0;
};

}  // namespace qtape
