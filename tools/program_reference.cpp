// program_reference: prints docs/integer-program.md as it is, read from the standard input,
// with the tables that are made from the code.
#include <cstdio>
#include <exception>
#include <iostream>
#include <iterator>
#include <string>

#include "qtape/deploy/reference.h"
#include "qtape/examples/shared/standard_output.h"

int main() try {
  using namespace qtape;
  examples::prepare_standard_streams();
  const std::string page{std::istreambuf_iterator<char>(std::cin), {}};
  examples::print_text(with_program_reference(page));
  examples::require_standard_output();
} catch (const std::exception& error) {
  std::fprintf(stderr, "program_reference: %s\n", error.what());
  return 1;
}
