// write_tables: copies a documentation page from standard input to standard output and
// regenerates the tables that come from the code.
#include <cstdio>
#include <exception>
#include <iostream>
#include <iterator>
#include <string>

#include "qtape/programs/console/standard_output.h"
#include "qtape/tools/docs/tables.h"

int main() try {
  using namespace qtape;
  console::prepare_standard_streams();
  const std::string page{std::istreambuf_iterator<char>(std::cin), {}};
  console::print_text(with_tables(page));
  console::require_standard_output();
} catch (const std::exception& error) {
  std::fprintf(stderr, "write_tables: %s\n", error.what());
  return 1;
}
