// Standard output of programs whose work must not be lost if standard output fails.
#pragma once

#include <fmt/format.h>

#include <string_view>

namespace qtape::console {

/// Prints a text to standard output. Never throws: a failure is recorded for
/// require_standard_output.
void print_text(std::string_view text);

template <class... Args>
void print(fmt::format_string<Args...> text, Args&&... args) {
  print_text(fmt::format(text, std::forward<Args>(args)...));
}

/// Flushes standard output. A failure is recorded as well.
void flush();

/// Throws IoError: "standard output: cannot write: " and the meaning of `error`, an errno,
/// unless it is 0.
[[noreturn]] void fail_standard_output(int error);

/// Throws IoError if anything printed, here or by other means, could not be written.
void require_standard_output();

/// Prepares the standard streams before a program prints. Lines are written immediately, also
/// to pipes. A closed pipe is an error instead of a signal. Files opened later cannot get the
/// descriptor of a closed standard stream.
void prepare_standard_streams();

}  // namespace qtape::console
