// Blocks of windows and outputs whose sums stay in registers: the operands of their loops.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace qtape::kernels {

/// Operands of the loop over a block of points and outputs.
template <class Code>
struct WindowBlock {
  const Code* x;
  int64_t step;
  const int64_t* runs;
  int64_t run_count;
  int64_t groups;
  const std::byte* weights;
  int32_t* y;
  int64_t n;     // distance between rows of y
  int64_t last;  // outputs in the last vector of the block
};

template <class Code>
using WindowLoop = void (*)(const WindowBlock<Code>&);

/// Terms that are multiplied at once: as many codes as the 32-bit lane of an output holds.
template <class Code>
constexpr int64_t terms_of_group = 4 / sizeof(Code);

template <class Code>
int32_t group_at(const Code* x) {
  int32_t group = 0;
  std::memcpy(&group, x, sizeof group);
  return group;
}

/// For each instruction set: the lanes of a vector, `points` of a block with one vector and
/// with two, as many as stay in registers, and `loop<points, vectors>(const
/// WindowBlock<Code>&)`.
template <class Code>
struct WindowRegisters {
  static constexpr int64_t lanes = 1;
};

}  // namespace qtape::kernels
