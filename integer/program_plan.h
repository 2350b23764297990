// Memory plan of the values of an integer program. A pure function.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "qtape/engine/plan.h"
#include "qtape/integer/integer_program.h"

namespace qtape {

/// Values that stay readable after a run, in addition to inputs and outputs.
enum class KeptValues : uint8_t {
  Outputs,  ///< no others: their memory is reused
  Codes,    ///< all except products that an epilogue consumes while they are in cache
  All
};

/// Memory location of each value, and the memory that all take.
struct ProgramPlan {
  /// Location of one value.
  struct Value {
    /// Bytes from the start of the arena; empty if the value is not stored in the arena.
    std::optional<int64_t> offset = std::nullopt;
    bool kept = false;  ///< readable after a run
    /// The node that receives its products while they are in cache; both run as one.
    std::optional<NodeId> next = std::nullopt;
    /// Offset of the scratch memory of its C code; empty if it needs none.
    std::optional<int64_t> scratch = std::nullopt;
    bool operator==(const Value&) const = default;
  };
  std::vector<Value> values;      ///< by node
  std::vector<Lifetime> buffers;  ///< contents of the arena; times are node indices
  int64_t arena_bytes = 0;
};

/// Node i runs at time i, together with the node that receives its products. Inputs lie in the
/// arena for the lifetime of the session. A view shares the memory of its operand. An op that
/// may run in place takes the memory of operand 0 if no later node reads it.
ProgramPlan plan_program(const IntegerProgram& program, KeptValues kept);

/// The alignment of buffers in the arena of a C program.
inline constexpr int64_t c_alignment = 8;
/// Memory plan for C: outputs are kept, inputs and outputs in f32 lie in memory of the caller,
/// and nodes have the scratch memory that their C code needs.
ProgramPlan plan_c_program(const IntegerProgram& program, CKernels kernels);

}  // namespace qtape
