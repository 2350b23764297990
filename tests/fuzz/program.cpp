// Files of integer programs, which are written back as they were read; small ones run, and
// plain loops give the bits of the kernels of any instruction set, with memory that is reused.
#include <algorithm>
#include <random>

#include "qtape/deploy/verify.h"
#include "qtape/integer/program/integer_node.h"
#include "qtape/integer/program/integer_program.h"
#include "qtape/tests/fuzz/seeds.h"
#include "qtape/tests/fuzz/target.h"
#include "qtape/tests/support/isa_limit.h"

namespace {

using namespace qtape;

bool is_small(const IntegerProgram& program) {
  int64_t elements = 0;
  for (const IntegerNode& node : program.nodes()) {
    elements += node.value.type.shape.elements();
    if (elements > 20000) return false;
  }
  return true;
}

void require_equal_levels(const IntegerProgram& program, size_t seed) {
  const test::IsaLimit limit(test::any_isa(seed));
  VerifyOptions options{.batch = 2, .threads = 1};
  options.levels = {Level::Reference, Level::Backend};
  Verifier verifier(program, options);
  std::minstd_rand draw(static_cast<uint32_t>(seed));
  for (size_t i = 0; i < verifier.inputs().size(); ++i) {
    const IntegerNode& input = verifier.program()[verifier.inputs()[i]];
    if (input.value.type.dtype == DType::S32) {
      std::ranges::fill(verifier.input<int32_t>(i), 0);
    } else {
      std::ranges::generate(verifier.input(i),
                            [&] { return std::uniform_real_distribution<float>(-4, 4)(draw); });
    }
  }
  verifier.run(options.batch);
  fuzz::require_equal(verifier.mismatches() == 0, test::mismatch(verifier));
}

void run(std::string_view bytes) {
  const IntegerProgram program = program_from_json(bytes);
  const auto again = [&] { return program_from_json(to_json(program)); };
  fuzz::require_equal(fuzz::accepted(again) == program);
  if (is_small(program)) {
    require_equal_levels(program, std::hash<std::string_view>{}(bytes));
  }
}

const fuzz::Target target("program", run, [] {
  return fuzz::written_programs([](const IntegerProgram& program) { return to_json(program); });
});

}  // namespace
