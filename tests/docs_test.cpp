// Documentation that must agree with the code.
#include <doctest/doctest.h>

#include <string>

#include "qtape/engine/files.h"
#include "qtape/tools/docs/ops_page.h"
#include "qtape/tools/docs/tables.h"

namespace {

std::string source(const std::string& path) {
  return qtape::read_file(std::string(QTAPE_SOURCE) + "/" + path, 1 << 20);
}

}  // namespace

TEST_CASE("docs: ops.md is what the ops declare; rewrite it with write_ops_page") {
  CHECK(source("docs/ops.md") == qtape::ops_page());
}

TEST_CASE("docs: pages have the tables that write_tables writes") {
  for (const char* path : {"docs/integer-program.md", "docs/quantization.md"}) {
    const std::string page = source(path);
    CHECK_MESSAGE(page == qtape::with_tables(page), path);
  }
}

TEST_CASE("docs: the README shows the programs that are compiled and run") {
  for (const char* path : {"examples/digits.cpp", "examples/deploy.cpp"}) {
    const std::string program = source(path);
    const std::string shown = program.substr(program.find("#include"));
    CHECK_MESSAGE(source("README.md").find("```cpp\n" + shown + "```") != std::string::npos,
                  path);
  }
}
