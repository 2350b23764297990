// write_ops_page: prints docs/ops.md.
#include <cstdio>
#include <exception>

#include "qtape/programs/console/standard_output.h"
#include "qtape/tools/docs/ops_page.h"

int main() try {
  using namespace qtape;
  console::prepare_standard_streams();
  console::print_text(ops_page());
  console::require_standard_output();
} catch (const std::exception& error) {
  std::fprintf(stderr, "write_ops_page: %s\n", error.what());
  return 1;
}
