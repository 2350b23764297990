// What the sources that are written of pages tell the program that runs them.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace qtape::docs {

/// The fragment at `line` of its page begins.
void at(int line);

/// A whole program of a page.
struct Program {
  int line = 0;
  std::function<int(int argc, char** argv)> main = {};
};
Program program(int line, int (*main)());
Program program(int line, int (*main)(int argc, char** argv));

/// The C++ of a page.
struct Code {
  std::function<void()> fragments = {};
  std::vector<Program> programs = {};
};
/// Empty for a page without any.
Code code_of(const std::string& page);

/// Makes the code of `page` known.
struct Registration {
  Registration(const std::string& page, void (*fragments)(), std::vector<Program> programs);
};

}  // namespace qtape::docs
