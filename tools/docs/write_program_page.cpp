// write_program_page: prints docs/integer-program.md as it is, read from the standard input,
// with the tables that are made from the code.
#include <cstdio>
#include <exception>
#include <iostream>
#include <iterator>
#include <string>

#include "qtape/examples/shared/standard_output.h"
#include "qtape/tools/docs/program_page.h"

int main() try {
  using namespace qtape;
  examples::prepare_standard_streams();
  const std::string page{std::istreambuf_iterator<char>(std::cin), {}};
  examples::print_text(with_program_tables(page));
  examples::require_standard_output();
} catch (const std::exception& error) {
  std::fprintf(stderr, "write_program_page: %s\n", error.what());
  return 1;
}
