// Random networks, drawn by the first bytes: all levels of arithmetic, product paths and
// numbers of threads give the same integers.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>

#include "qtape/tests/fuzz/reads.h"
#include "qtape/tests/support/integer_nets.h"
#include "qtape/tests/support/small_nets.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace qtape;
  uint64_t seed = 0;
  std::memcpy(&seed, data, std::min(size, sizeof seed));
  // Not only networks that are refused: each of these has integers.
  const Graph graph = test::any_net(seed);
  const auto outputs = test::copied(graph.outputs());
  const std::string difference =
      test::disagreement({graph, seed}, seed, test::Effort::Some, outputs);
  if (!difference.empty()) std::puts(difference.c_str());
  fuzz::require_equal(difference.empty());
  return 0;
}
