// Memory plan of the values of an integer program. A pure function.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "qtape/engine/plan.h"
#include "qtape/integer/program/integer_node.h"
#include "qtape/integer/program/kept_values.h"

namespace qtape {

/// Memory location of each value, and the memory that all take.
struct ProgramPlan {
  /// Location of one value.
  struct Value {
    /// Bytes from the start of the arena; empty if the value is not stored in the arena.
    std::optional<int64_t> offset = std::nullopt;
    bool kept = false;  ///< readable after a run
    /// The node that receives its products while they are in cache; both run as one.
    std::optional<ProgramNodeId> next = std::nullopt;
    /// In plans for other machines: bytes from the start of the arena to its scratch memory;
    /// empty if it needs none.
    std::optional<int64_t> scratch = std::nullopt;
    bool operator==(const Value&) const = default;
  };
  std::vector<Value> values;      ///< by node
  std::vector<Lifetime> buffers;  ///< contents of the arena; times are node indices
  int64_t arena_bytes = 0;
};

/// Node i runs at time i, together with the node that receives its products. Inputs and
/// constants are in the arena for the lifetime of the session. A view shares the memory of its
/// operand. An op that may run in place takes the memory of operand 0 if no later node reads
/// it.
ProgramPlan plan_program(const IntegerProgram& program, KeptValues kept);

/// Memory needs of code that is written for another machine.
struct TargetMemory {
  int64_t alignment = 8;  ///< of buffers in the arena, in bytes
  /// Returns the bytes that a node needs in addition to its operands and result. `grid` is that
  /// of the codes that its sums become while they are computed, or null.
  std::function<int64_t(const IntegerNode& node, const CodeGrid* grid)> scratch;
};

/// Plans code for another machine: outputs are kept, inputs and outputs in f32 and inputs of
/// indices are in memory of the caller, constants outside of the arena, and nodes have scratch
/// memory. Sums that are outputs, or that several nodes read, are not computed together with
/// the node after them.
ProgramPlan plan_program(const IntegerProgram& program, const TargetMemory& target);

}  // namespace qtape
