// program_reference: prints docs/integer-program.md as it is, read from the standard input,
// with the tables that are made from the code.
#include <fmt/core.h>

#include <exception>
#include <iostream>
#include <iterator>
#include <string>

#include "qtape/deploy/reference.h"

int main() try {
  const std::string page{std::istreambuf_iterator<char>(std::cin), {}};
  fmt::print("{}", qtape::with_program_reference(page));
} catch (const std::exception& error) {
  fmt::print(stderr, "program_reference: {}\n", error.what());
  return 1;
}
