// ops_reference: prints docs/ops.md.
#include <fmt/core.h>

#include "qtape/engine/reference.h"

int main() { fmt::print("{}", qtape::ops_reference()); }
