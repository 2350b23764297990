// Standard output of programs whose work must not be lost when nobody reads what they say.
#pragma once

#include <fmt/format.h>

#include <string_view>

namespace qtape::console {

/// Prints a whole text to standard output. Never throws: a failure is kept for
/// require_standard_output.
void print_text(std::string_view text);

template <class... Args>
void print(fmt::format_string<Args...> text, Args&&... args) {
  print_text(fmt::format(text, std::forward<Args>(args)...));
}

/// Writes out what is buffered of standard output. A failure is kept as well.
void flush();

/// "standard output: cannot write: " and what `error`, an errno, means; without it for 0.
[[noreturn]] void fail_standard_output(int error);

/// Throws IoError when anything that was printed, here or by other means, could not be written.
void require_standard_output();

/// What a program does before it prints: lines go out at once, into pipes too; a reader that
/// is gone is an error instead of a kill; no file that is opened later takes the number of a
/// standard stream that is closed.
void prepare_standard_streams();

}  // namespace qtape::console
