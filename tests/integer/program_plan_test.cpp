#include "qtape/integer/program/program_plan.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "qtape/tests/support/integer_nets.h"
#include "qtape/tests/support/integer_programs.h"

using namespace qtape;

namespace {

IntegerProgram random_program(uint64_t seed) {
  return test::Settled(test::random_net(seed), seed).program(Requantization::SingleRounding);
}

constexpr CodeGrid grid{DType::U8, 0.5, 3, 0, 255};

}  // namespace

TEST_CASE("program plan: what is in use at one time never overlaps") {
  int64_t shared = 0;
  for (uint64_t seed = 300; seed < 340; ++seed) {
    const IntegerProgram program = random_program(seed);
    for (KeptValues kept : {KeptValues::Outputs, KeptValues::Codes, KeptValues::All}) {
      const ProgramPlan memory = plan_program(program, kept);
      std::string overlaps;
      int64_t bytes = 0;
      for (const Lifetime& a : memory.buffers) {
        bytes += a.bytes;
        for (const Lifetime& b : memory.buffers) {
          if (&a == &b || a.end < b.begin || b.end < a.begin) continue;
          if (a.offset >= b.offset + b.bytes || b.offset >= a.offset + a.bytes) continue;
          overlaps += fmt::format("{} of {} bytes and {}; ", a.offset, a.bytes, b.offset);
        }
      }
      CAPTURE(seed);
      CHECK(overlaps == "");
      CHECK(memory.arena_bytes >= largest_live_set(memory.buffers));
      shared += memory.arena_bytes < bytes ? 1 : 0;
    }
  }
  CHECK(shared > 0);
}

TEST_CASE("program plan: what runs in place or is a view lies where its operand does") {
  IntegerProgram program;
  const ProgramNodeId x = program.add(integer::Input{.shape = {2, 6}}, {}, "x");
  const ProgramNodeId codes = program.add(integer::Quantize{.grid = grid}, {x});
  const ProgramNodeId shape = program.add(integer::Reshape{{.shape = {3, 4}}}, {codes});
  const ProgramNodeId sum = program.add(integer::Add{.grid = grid}, {shape, shape});
  const ProgramNodeId other = program.add(integer::Requantize{.grid = grid}, {sum});
  const ProgramNodeId y = program.add(integer::Mul{.grid = grid}, {other, sum});
  program.set_outputs({y});

  const ProgramPlan lean = plan_program(program, KeptValues::Outputs);
  const auto offset = [](const ProgramPlan& memory, ProgramNodeId id) {
    return memory.values[at(id)].offset;
  };
  CHECK(offset(lean, shape) == offset(lean, codes));
  CHECK(offset(lean, sum) == offset(lean, codes));
  // `sum` is read again after `other` was computed.
  CHECK(offset(lean, other) != offset(lean, sum));
  CHECK(offset(lean, y) == offset(lean, other));
  CHECK(lean.buffers.size() == 3);
  CHECK(lean.arena_bytes == 3 * 64);
  CHECK(largest_live_set(lean.buffers) == 3 * 64);

  const ProgramPlan all = plan_program(program, KeptValues::All);
  CHECK(offset(all, shape) == offset(all, codes));
  CHECK(all.buffers.size() == 5);
}

TEST_CASE("program plan: what is repeated is not computed in place, also with as many bytes") {
  IntegerProgram program;
  const ProgramNodeId x = program.add(integer::Input{.shape = {6, 1}}, {}, "x");
  const ProgramNodeId two = program.add(integer::Input{.shape = {6, 2}}, {}, "two");
  const ProgramNodeId wide =
      program.add(integer::Quantize{.grid = test::whole_grid(DType::S16, 0.25)}, {x});
  const ProgramNodeId codes = program.add(integer::Quantize{.grid = grid}, {two});
  const ProgramNodeId y = program.add(integer::Mul{.grid = grid}, {wide, codes});
  program.set_outputs({y});
  CHECK(program[wide].value.type.bytes() == program[y].value.type.bytes());
  const ProgramPlan plan = plan_program(program, KeptValues::Outputs);
  CHECK(plan.values[at(y)].offset != plan.values[at(wide)].offset);
}

TEST_CASE("program plan: products that become codes at once are written nowhere") {
  const IntegerProgram program = random_program(301);
  const ProgramPlan lean = plan_program(program, KeptValues::Outputs);
  const ProgramPlan all = plan_program(program, KeptValues::All);
  int64_t joined = 0;
  for (size_t i = 0; i < lean.values.size(); ++i) {
    joined += lean.values[i].next ? 1 : 0;
    CHECK(lean.values[i].next.has_value() != lean.values[i].offset.has_value());
    CHECK(all.values[i].offset.has_value());
    CHECK(all.values[i].kept);
  }
  CHECK(joined > 0);
}
