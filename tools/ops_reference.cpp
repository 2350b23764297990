// ops_reference: prints docs/ops.md.
#include <cstdio>
#include <exception>

#include "qtape/engine/reference.h"
#include "qtape/examples/shared/standard_output.h"

int main() try {
  using namespace qtape;
  examples::prepare_standard_streams();
  examples::print_text(ops_reference());
  examples::require_standard_output();
} catch (const std::exception& error) {
  std::fprintf(stderr, "ops_reference: %s\n", error.what());
  return 1;
}
