// write_conformance FOLDER: writes the conformance vectors of tests/data/conformance.
// write_conformance FOLDER FIRST COUNT: writes vectors of random nets with seeds from FIRST on.
#include <fmt/format.h>

#include <cstdio>
#include <exception>

#include "qtape/integer/program/integer_node.h"
#include "qtape/io/files.h"
#include "qtape/tests/support/conformance.h"
#include "qtape/tests/support/integer_nets.h"

namespace {

using namespace qtape;

test::ConformanceCase random_case(uint64_t seed) {
  test::Settled net(test::any_net(seed), seed);
  test::ConformanceCase result{.name = fmt::format("random-{}", seed),
                               .about = "A random net.",
                               .program = net.program(requantization::values[seed / 3 % 4])};
  for (const IntegerNode& node : result.program.nodes()) {
    if (!std::holds_alternative<integer::Input>(node.op)) continue;
    std::vector<float> x(static_cast<size_t>(node.value.type.elements()));
    test::fill_wild(x, seed);
    result.inputs.push_back(Tensor::of<float>(node.value.type.shape, x));
  }
  return result;
}

void write(const std::string& folder, const test::ConformanceCase& each) {
  write_file(fmt::format("{}/{}.json", folder, each.name), test::to_text(each));
}

}  // namespace

int main(int argc, char** argv) try {
  require<ArgumentError>(argc == 2 || argc == 4,
                         "usage: write_conformance FOLDER [FIRST COUNT]");
  if (argc == 2) {
    for (const test::ConformanceCase& each : test::conformance_cases()) write(argv[1], each);
    return 0;
  }
  const uint64_t first = std::stoull(argv[2]);
  const uint64_t count = std::stoull(argv[3]);
  for (uint64_t seed = first; seed < first + count; ++seed) write(argv[1], random_case(seed));
} catch (const std::exception& error) {
  std::fprintf(stderr, "write_conformance: %s\n", error.what());
  return 1;
}
