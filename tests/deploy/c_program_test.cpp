// C programs: what a compiler of this machine makes of them gives the integers of the
// reference.
#include "qtape/integer/c/c_program.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "qtape/deploy/c_library.h"
#include "qtape/deploy/convert.h"
#include "qtape/engine/parameters.h"
#include "qtape/integer/session.h"
#include "qtape/tests/support/integer_nets.h"
#include "qtape/tests/support/integer_programs.h"

namespace {

using namespace qtape;

/// Warnings are errors: the C that users compile has none.
const CCompiler strict{
    .flags = {"-O1", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror"}};

struct Case {
  std::string name;
  IntegerProgram program;
};

/// Where C and reference differ, of `samples` runs on random inputs.
std::string difference(const Case& each, CSession& c, const CUnit& unit, int samples) {
  const IntegerProgram one = each.program.batch() ? each.program.with_batch(1) : each.program;
  IntegerSession reference(one, {.reference = true});
  for (int sample = 0; sample < samples; ++sample) {
    for (size_t i = 0; i < unit.written.inputs.size(); ++i) {
      const auto x = reference.input(unit.written.inputs[i].node);
      test::fill_wild(x, static_cast<uint64_t>(1000 * sample) + i);
      std::ranges::copy(x, c.input(i).begin());
    }
    reference.run();
    c.run();
    for (const CStep& step : unit.written.steps) {
      const auto wanted = reference.bytes(step.node);
      const auto got = c.value(step.node);
      if (std::ranges::equal(wanted, got)) continue;
      const auto [a, b] = std::ranges::mismatch(wanted, got);
      return fmt::format("{}: {} differs at byte {} of {}", each.name, one.describe(step.node),
                         a - wanted.begin(), wanted.size());
    }
    for (size_t i = 0; i < unit.written.outputs.size(); ++i) {
      if (!std::ranges::equal(reference.bytes(unit.written.outputs[i].node), c.output(i))) {
        return fmt::format("{}: output {} differs", each.name, i);
      }
    }
  }
  return "";
}

std::string differences(const std::vector<Case>& cases, const CCompiler& compiler,
                        int samples) {
  std::vector<CUnit> units;
  for (const Case& each : cases) {
    units.push_back({each.name, write_c_program(each.program, each.name)});
  }
  const CLibrary library(units, compiler);
  for (size_t i = 0; i < cases.size(); ++i) {
    CSession session(cases[i].program, units[i], library);
    std::string text = difference(cases[i], session, units[i], samples);
    if (!text.empty()) return text;
  }
  return "";
}

TEST_CASE("C programs: random nets give the integers of the reference, without a warning") {
  std::vector<Case> cases;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    const Graph graph = test::random_net(seed);
    Parameters parameters(graph, seed);
    test::settle(graph, parameters, seed);
    const bool codes = seed % 3 == 0;
    const auto outputs = codes ? graph.outputs().last(1) : graph.outputs();
    cases.push_back(
        {fmt::format("net{}", seed),
         convert(graph, parameters,
                 {.requantization = requantization::values[seed % requantization::count],
                  .outputs = {outputs.begin(), outputs.end()},
                  .integer_outputs = codes})});
  }
  CHECK(differences(cases, strict, 20) == "");
}

}  // namespace
