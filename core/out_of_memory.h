// Out-of-memory error that names the failed task and allocates nothing itself.
#pragma once

#include <array>
#include <cstdint>
#include <new>
#include <string_view>

namespace qtape {

/// A failed allocation. `what()` is one line, for example "out of memory while reading m.json",
/// with the number of bytes where it is known and the limit of the address space if there is
/// one. The text is stored in the object and truncated to fit.
class OutOfMemory : public std::bad_alloc {
 public:
  /// A failed allocation of `bytes` bytes.
  explicit OutOfMemory(int64_t bytes) noexcept;
  /// A failed allocation of `bytes` bytes (0 if unknown) during `task`, a verb in -ing, on
  /// `object`, which may be empty.
  OutOfMemory(std::string_view task, std::string_view object, int64_t bytes) noexcept;

  const char* what() const noexcept override { return text_.data(); }
  /// True if the error names a task.
  bool has_task() const noexcept { return has_task_; }
  int64_t bytes() const noexcept { return bytes_; }

 private:
  void append(std::string_view part) noexcept;
  void append(uint64_t number) noexcept;
  void append_bytes() noexcept;
  void append_limit() noexcept;

  std::array<char, 512> text_ = {};
  std::size_t size_ = 0;
  int64_t bytes_ = 0;
  bool has_task_ = false;
};

/// Throws an OutOfMemory that adds the task to `error`, or rethrows `error` if it already names
/// a task. Must be called in a handler of `error`.
[[noreturn]] void fail_while(std::string_view task, std::string_view object,
                             const std::bad_alloc& error);

/// Returns the result of `body`. Adds the task to a std::bad_alloc thrown by `body`; the
/// innermost task is kept.
template <class Body>
auto during(std::string_view task, std::string_view object, const Body& body) {
  try {
    return body();
  } catch (const std::bad_alloc& error) {
    fail_while(task, object, error);
  }
}

}  // namespace qtape
