#include "qtape/tests/docs/code.h"

#include <map>
#include <utility>

namespace qtape::docs {

namespace {

std::map<std::string, Code>& codes() {
  static std::map<std::string, Code> all;
  return all;
}

}  // namespace

Program program(int line, int (*main)()) {
  return {line, [main](int, char**) { return main(); }};
}
Program program(int line, int (*main)(int argc, char** argv)) { return {line, main}; }

Code code_of(const std::string& page) { return codes()[page]; }

Registration::Registration(const std::string& page, void (*fragments)(),
                           std::vector<Program> programs) {
  codes()[page] = {fragments, std::move(programs)};
}

}  // namespace qtape::docs
