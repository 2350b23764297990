// Files of integer programs, which are written back as they were read; small ones run, and
// plain loops give the bits of the kernels of any instruction set, also where memory is reused.
#include "qtape/deploy/verify.h"
#include "qtape/integer/program/integer_node.h"
#include "qtape/integer/program/integer_program.h"
#include "qtape/tests/fuzz/seeds.h"
#include "qtape/tests/fuzz/sessions.h"
#include "qtape/tests/fuzz/target.h"
#include "qtape/tests/support/conformance.h"
#include "qtape/tests/support/integer_nets.h"
#include "qtape/tests/support/isa_limit.h"

namespace {

using namespace qtape;

void require_equal_levels(const IntegerProgram& program, size_t seed) {
  const test::IsaLimit limit(test::any_isa(seed));
  VerifyOptions options{.batch = 2, .threads = 1};
  options.levels = {Level::Reference, Level::Backend};
  Verifier verifier(program, options);
  for (size_t i = 0; i < verifier.inputs().size(); ++i) {
    test::fill_input(verifier, i, seed + i);
  }
  verifier.run(options.batch);
  if (verifier.mismatches() > 0) throw fuzz::Finding(test::mismatch(verifier));
  fuzz::require_equal_outputs(program, seed);
}

void run(std::string_view bytes) {
  const IntegerProgram program = program_from_json(bytes);
  const auto again = [&] { return program_from_json(to_json(program)); };
  fuzz::require_equal(fuzz::accepted(again) == program);
  const auto type = [](const IntegerNode& node) { return node.value.type; };
  if (fuzz::is_small(program.nodes(), type)) {
    require_equal_levels(program, std::hash<std::string_view>{}(bytes));
  }
}

std::vector<std::string> programs() {
  std::vector<std::string> all;
  for (const test::ConformanceCase& each : test::conformance_cases()) {
    all.push_back(to_json(each.program));
  }
  return all;
}

const fuzz::Target target("program", run, programs);

}  // namespace
