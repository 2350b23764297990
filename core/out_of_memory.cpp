#include "qtape/core/out_of_memory.h"

#include <algorithm>
#include <charconv>

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
}

void OutOfMemory::append(std::string_view part) noexcept {
  const std::size_t count = std::min(part.size(), text_.size() - 1 - size_);
  // Control characters in a path must not break the line.
  std::ranges::transform(part.substr(0, count), text_.begin() + size_,
                         [](char c) { return static_cast<unsigned char>(c) < ' ' ? '?' : c; });
  size_ += count;
}

void OutOfMemory::append_bytes() noexcept {
  if (bytes_ == 0) return;
  std::array<char, 20> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), bytes_).ptr;
  append(": cannot allocate ");
  append({digits.data(), static_cast<std::size_t>(end - digits.data())});
  append(" bytes");
}

void fail_while(std::string_view task, std::string_view object, const std::bad_alloc& error) {
  const auto* known = dynamic_cast<const OutOfMemory*>(&error);
  if (known != nullptr && known->has_task()) throw;
  throw OutOfMemory(task, object, known != nullptr ? known->bytes() : 0);
}

}  // namespace qtape
