// Programs on signed codes: the values are those of the program they were made of.
#include "qtape/integer/program/signed_codes.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "qtape/integer/program/integer_node.h"
#include "qtape/integer/program/session.h"
#include "qtape/tests/support/conformance.h"

namespace {

using namespace qtape;

/// Returns the first node whose integers, minus their offset, or floats differ from those of
/// `from`.
std::string first_difference(const IntegerSession& from, const RewrittenProgram& made,
                             const IntegerSession& to) {
  for (const ProgramNodeId id : ids(from.program())) {
    const ProgramNodeId other = made.nodes[id];
    const TensorType& type = from.program()[id].value.type;
    if (type.dtype == DType::F32) {
      if (!std::ranges::equal(from.bytes(id), to.bytes(other)))
        return from.program().describe(id);
      continue;
    }
    for (int64_t k = 0; k < type.elements(); ++k) {
      if (from.integer(id, k) == to.integer(other, k) + signed_offset(type.dtype)) continue;
      return from.program().describe(id);
    }
  }
  return "";
}

TEST_CASE("signed codes: all conformance cases compute the same, shifted") {
  int unsigned_nodes = 0;
  for (const test::ConformanceCase& each : test::conformance_cases()) {
    CAPTURE(each.name);
    const RewrittenProgram made = with_signed_codes(each.program);
    for (const ProgramNodeId id : ids(each.program)) {
      const IntegerNode& node = made.program[made.nodes[id]];
      CHECK(signed_offset(node.value.type.dtype) == 0);
      unsigned_nodes += signed_offset(each.program[id].value.type.dtype) == 0 ? 0 : 1;
    }
    IntegerSession from(each.program, {.reference = true});
    IntegerSession to(made.program, {.reference = true});
    test::feed_inputs(from, each.inputs);
    test::feed_inputs(to, each.inputs);
    from.run();
    to.run();
    CHECK(first_difference(from, made, to) == "");
  }
  CHECK(unsigned_nodes > 100);
}

}  // namespace
