// One way to run the graph of a tape. Included only by .cpp files of the tape.
#pragma once

#include <memory>
#include <vector>

#include "qtape/core/aligned.h"
#include "qtape/engine/forward_arithmetic.h"
#include "qtape/engine/plan.h"
#include "qtape/engine/tape.h"

namespace qtape {

struct Tape::Bound {
  Kernel kernel;
  size_t node = 0;
  bool constant = false;
};

/// Memory, and kernels bound to it.
struct Tape::Layout {
  std::unique_ptr<ForwardArithmetic> arithmetic;  // kernels point to its values
  Plan plan;
  AlignedBuffer arena;
  std::vector<Bound> forward;
  std::vector<Bound> backward;
};

}  // namespace qtape
