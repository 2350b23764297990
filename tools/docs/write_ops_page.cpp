// write_ops_page: prints docs/ops.md.
#include <cstdio>
#include <exception>

#include "qtape/examples/shared/standard_output.h"
#include "qtape/tools/docs/ops_page.h"

int main() try {
  using namespace qtape;
  examples::prepare_standard_streams();
  examples::print_text(ops_page());
  examples::require_standard_output();
} catch (const std::exception& error) {
  std::fprintf(stderr, "write_ops_page: %s\n", error.what());
  return 1;
}
