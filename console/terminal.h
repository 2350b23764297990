// What a program draws on a terminal and nowhere else.
#pragma once

#include <string_view>

namespace qtape::console {

/// Whether standard output is a terminal that can draw a line again: $TERM is set and not dumb.
bool can_redraw();

/// $COLUMNS where it is a number from 1, else what the terminal says, else 80.
int terminal_columns();

/// Draws a line over the one before it, cut to fit; nothing where can_redraw is false. Never
/// throws.
void redraw(std::string_view line);
/// Removes that line, for others to be printed.
void clear_line();

}  // namespace qtape::console
