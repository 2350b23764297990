// Random inputs of integer programs, and what sessions give for them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "qtape/integer/program/integer_node.h"
#include "qtape/integer/program/session.h"
#include "qtape/tests/fuzz/target.h"
#include "qtape/tests/support/integer_nets.h"
#include "qtape/tests/support/small_nets.h"

namespace qtape::fuzz {

/// Returns the outputs that a session has for random inputs.
inline std::vector<std::vector<std::byte>> outputs(const IntegerProgram& program,
                                                   const SessionOptions& options,
                                                   uint64_t seed) {
  IntegerSession session(program, options);
  for (const ProgramNodeId id : ids(program)) {
    const IntegerNode& node = program[id];
    if (!std::holds_alternative<integer::Input>(node.op)) continue;
    if (node.value.type.dtype == DType::S32) {
      test::fill_indices(session.input<int32_t>(id), node.value.high, seed);
    } else {
      test::fill_wild(session.input(id), seed);
    }
  }
  session.run();
  std::vector<std::vector<std::byte>> values;
  for (const ProgramNodeId id : program.outputs()) {
    values.push_back(test::copied(session.bytes(id)));
  }
  return values;
}

/// Ends a target with a finding unless sessions that reuse memory, and those that keep all
/// values, have the outputs of plain loops.
inline void require_equal_outputs(const IntegerProgram& program, uint64_t seed) {
  const auto expected = outputs(program, {.reference = true}, seed);
  for (const KeptValues kept : {KeptValues::Outputs, KeptValues::All}) {
    const SessionOptions options{.threads = 1 + static_cast<int>(seed % 3), .kept = kept};
    if (outputs(program, options, seed) != expected) throw Finding(to_string(program));
  }
}

}  // namespace qtape::fuzz
