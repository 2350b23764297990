// Drawing on a terminal, with no effect elsewhere.
#pragma once

#include <string_view>

namespace qtape::console {

/// True if standard output is a terminal that can redraw a line: $TERM is set and not "dumb".
bool can_redraw();

/// $COLUMNS if it is a number >= 1, otherwise the width reported by the terminal, or 80.
int terminal_columns();

/// Draws a line, truncated to fit, over the preceding one. Does nothing if can_redraw is false.
/// Never throws.
void redraw(std::string_view line);
/// Clears that line, so that others can be printed.
void clear_line();

}  // namespace qtape::console
