#include "qtape/programs/console/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "qtape/programs/console/standard_output.h"

namespace qtape::console {
namespace {

constexpr int default_columns = 80;
constexpr int max_columns = 10000;

}  // namespace

bool can_redraw() {
  const char* term = std::getenv("TERM");
  return ::isatty(STDOUT_FILENO) == 1 && term != nullptr && *term != '\0' &&
         std::strcmp(term, "dumb") != 0;
}

int terminal_columns() {
  if (const char* text = std::getenv("COLUMNS")) {
    int columns = 0;
    const char* end = text + std::strlen(text);
    const auto [rest, error] = std::from_chars(text, end, columns);
    if (error == std::errc{} && rest == end && columns >= 1) {
      return std::min(columns, max_columns);
    }
  }
  winsize size{};
  const bool known = ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : default_columns;
}

void redraw(std::string_view line) {
  if (!can_redraw()) return;
  // A line that fills the last column makes some terminals start a new line.
  print("\r\033[K{}", line.substr(0, static_cast<size_t>(terminal_columns()) - 1));
  flush();
}

void clear_line() { redraw({}); }

}  // namespace qtape::console
