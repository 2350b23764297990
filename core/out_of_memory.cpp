#include "qtape/core/out_of_memory.h"

#include <algorithm>
#include <charconv>

#include "qtape/core/process_limits.h"

namespace qtape {

OutOfMemory::OutOfMemory(int64_t bytes) noexcept : bytes_(bytes) {
  append("out of memory");
  append_bytes();
}

OutOfMemory::OutOfMemory(std::string_view task, std::string_view object, int64_t bytes) noexcept
    : bytes_(bytes), has_task_(true) {
  append("out of memory while ");
  append(task);
  if (!object.empty()) append(" ");
  append(object);
  append_bytes();
  append_limit();
}

void OutOfMemory::append(std::string_view part) noexcept {
  const std::size_t count = std::min(part.size(), text_.size() - 1 - size_);
  // Control characters in a path must not break the line.
  std::ranges::transform(part.substr(0, count), text_.begin() + size_,
                         [](char c) { return static_cast<unsigned char>(c) < ' ' ? '?' : c; });
  size_ += count;
}

void OutOfMemory::append(uint64_t number) noexcept {
  std::array<char, 20> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  append({digits.data(), static_cast<std::size_t>(end - digits.data())});
}

void OutOfMemory::append_bytes() noexcept {
  if (bytes_ == 0) return;
  append(": cannot allocate ");
  append(static_cast<uint64_t>(bytes_));
  append(" bytes");
}

void OutOfMemory::append_limit() noexcept {
  const std::optional<int64_t> limit = address_space_limit();
  if (!limit) return;
  append(bytes_ == 0 ? ": the address space is limited to "
                     : "; the address space is limited to ");
  append(static_cast<uint64_t>(*limit));
  append(" bytes (ulimit -v)");
}

void fail_while(std::string_view task, std::string_view object, const std::bad_alloc& error) {
  const auto* known = dynamic_cast<const OutOfMemory*>(&error);
  if (known != nullptr && known->has_task()) throw;
  throw OutOfMemory(task, object, known != nullptr ? known->bytes() : 0);
}

}  // namespace qtape
