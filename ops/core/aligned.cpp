#include "qtape/ops/core/aligned.h"

#include <algorithm>
#include <cstring>
#include <new>

namespace qtape {

AlignedBuffer::AlignedBuffer(int64_t bytes) : size_(aligned_size(std::max<int64_t>(bytes, 1))) {
  const auto size = static_cast<size_t>(size_);
  data_.reset(static_cast<std::byte*>(::operator new(size, std::align_val_t{alignment})));
  std::memset(data_.get(), 0, size);
}

void AlignedBuffer::Free::operator()(std::byte* data) const {
  ::operator delete(data, std::align_val_t{alignment});
}

}  // namespace qtape
