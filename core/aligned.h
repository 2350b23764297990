// Memory for tensors: zeroed and 64-byte aligned, owned by one object.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace qtape {

/// Bytes that tensors are aligned to.
inline constexpr int64_t alignment = 64;

/// `bytes` rounded up so that consecutive tensors stay aligned.
constexpr int64_t aligned_size(int64_t bytes) {
  return (bytes + alignment - 1) / alignment * alignment;
}

/// A zeroed block of bytes. Movable, not copyable. Throws Error when the machine has less
/// memory.
class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  explicit AlignedBuffer(int64_t bytes);

  std::byte* data() const { return data_.get(); }
  int64_t size() const { return size_; }

 private:
  struct Free {
    void operator()(std::byte* data) const;
  };
  std::unique_ptr<std::byte, Free> data_;
  int64_t size_ = 0;
};

}  // namespace qtape
