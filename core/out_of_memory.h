// Memory that runs out: what was being done, in an error that allocates none.
#pragma once

#include <array>
#include <cstdint>
#include <new>
#include <string_view>

namespace qtape {

/// A failed allocation. `what()` is one line, "out of memory while reading m.json". It holds
/// its text itself, cut to fit.
class OutOfMemory : public std::bad_alloc {
 public:
  /// A block of so many bytes that could not be had.
  explicit OutOfMemory(int64_t bytes) noexcept;
  /// The same while `task`, a verb in -ing, was done to `object`, which may be empty. `bytes`
  /// is 0 where the size is not known.
  OutOfMemory(std::string_view task, std::string_view object, int64_t bytes) noexcept;

  const char* what() const noexcept override { return text_.data(); }
  /// Whether it names a task.
  bool has_task() const noexcept { return has_task_; }
  int64_t bytes() const noexcept { return bytes_; }

 private:
  void append(std::string_view part) noexcept;
  void append_bytes() noexcept;

  std::array<char, 512> text_ = {};
  std::size_t size_ = 0;
  int64_t bytes_ = 0;
  bool has_task_ = false;
};

/// Throws the OutOfMemory that `error` becomes by the task; `error` itself where it names one.
/// To be called while `error` is handled.
[[noreturn]] void fail_while(std::string_view task, std::string_view object,
                             const std::bad_alloc& error);

/// The result of `body`. A std::bad_alloc that it throws becomes one that names the task; the
/// innermost task counts.
template <class Body>
auto during(std::string_view task, std::string_view object, const Body& body) {
  try {
    return body();
  } catch (const std::bad_alloc& error) {
    fail_while(task, object, error);
  }
}

}  // namespace qtape
