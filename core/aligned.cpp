#include "qtape/core/aligned.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <new>

#include "qtape/core/error.h"
#include "qtape/core/out_of_memory.h"
#include "qtape/core/process_limits.h"

namespace qtape {
namespace {

std::atomic<int64_t> all_bytes = 0;

/// Throws for more memory than there is: a kernel that overcommits grants any size, and kills
/// the process when the pages are touched.
void require_memory(int64_t bytes) {
  static const int64_t machine = int64_t{::sysconf(_SC_PHYS_PAGES)} * ::sysconf(_SC_PAGESIZE);
  static const int64_t allowed = memory_limit("").value_or(machine);
  require<Error>(bytes <= machine, "cannot allocate {} bytes: the machine has {}", bytes,
                 machine);
  require<Error>(bytes <= allowed,
                 "cannot allocate {} bytes: the control group of this process allows {}", bytes,
                 allowed);
  const int64_t least = std::min(machine, allowed);
  require<Error>(
      bytes <= least - all_bytes, "cannot allocate {} bytes in addition to {} in use: {} {}",
      bytes, all_bytes.load(),
      least < machine ? "the control group of this process allows" : "the machine has", least);
}

}  // namespace

AlignedBuffer::AlignedBuffer(int64_t bytes) : size_(aligned_size(std::max<int64_t>(bytes, 1))) {
  require_memory(size_);
  const auto size = static_cast<size_t>(size_);
  void* data = ::operator new (size, std::align_val_t{alignment}, std::nothrow);
  if (data == nullptr) throw OutOfMemory(size_);
  all_bytes += size_;
  data_ = {static_cast<std::byte*>(data), Free{size_}};
  std::memset(data_.get(), 0, size);
}

int64_t AlignedBuffer::in_use() { return all_bytes; }

void AlignedBuffer::Free::operator()(std::byte* data) const {
  all_bytes -= size;
  ::operator delete (data, std::align_val_t{alignment});
}

}  // namespace qtape
