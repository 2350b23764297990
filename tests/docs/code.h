// Interface between the sources that are generated from pages and the program that runs them.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace qtape::docs {

/// Marks the beginning of the fragment at `line` of its page.
void at(int line);

/// A complete program on a page.
struct Program {
  int line = 0;
  std::function<int(int argc, char** argv)> main = {};
};
Program program(int line, int (*main)());
Program program(int line, int (*main)(int argc, char** argv));

/// The C++ code of a page.
struct Code {
  std::function<void()> fragments = {};
  std::vector<Program> programs = {};
};
/// Returns the code of a page; empty if it has none.
Code code_of(const std::string& page);

/// Registers the code of `page`.
struct Registration {
  Registration(const std::string& page, void (*fragments)(), std::vector<Program> programs);
};

}  // namespace qtape::docs
