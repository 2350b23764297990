#include "qtape/core/aligned.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "qtape/core/error.h"
#include "qtape/core/out_of_memory.h"

namespace qtape {
namespace {

int64_t machine_memory() {
  return int64_t{::sysconf(_SC_PHYS_PAGES)} * ::sysconf(_SC_PAGESIZE);
}

}  // namespace

AlignedBuffer::AlignedBuffer(int64_t bytes) : size_(aligned_size(std::max<int64_t>(bytes, 1))) {
  // An overcommitting kernel grants any size and kills the process when the pages are touched.
  require<Error>(size_ <= machine_memory(), "cannot allocate {} bytes: the machine has {}",
                 size_, machine_memory());
  const auto size = static_cast<size_t>(size_);
  void* data = ::operator new (size, std::align_val_t{alignment}, std::nothrow);
  if (data == nullptr) throw OutOfMemory(size_);
  data_.reset(static_cast<std::byte*>(data));
  std::memset(data_.get(), 0, size);
}

void AlignedBuffer::Free::operator()(std::byte* data) const {
  ::operator delete (data, std::align_val_t{alignment});
}

}  // namespace qtape
