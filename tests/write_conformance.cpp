// write_conformance FOLDER: writes the conformance vectors of tests/data/conformance.
#include <cstdio>
#include <exception>

#include "qtape/io/files.h"
#include "qtape/tests/support/conformance.h"

int main(int argc, char** argv) try {
  using namespace qtape;
  require<ArgumentError>(argc == 2, "usage: write_conformance FOLDER");
  for (const test::ConformanceCase& each : test::conformance_cases()) {
    write_file(std::string(argv[1]) + "/" + each.name + ".json", test::to_text(each));
  }
} catch (const std::exception& error) {
  std::fprintf(stderr, "write_conformance: %s\n", error.what());
  return 1;
}
