// Minimum work of a training step, and its minimum time.
#pragma once

#include "qtape/bench/limits.h"
#include "qtape/bench/networks.h"
#include "qtape/engine/graph.h"
#include "qtape/engine/plan.h"

namespace qtape::bench {

struct Work {
  double forward = 0;    ///< multiplications and additions of products
  double backward = 0;   ///< of the gradients that are needed
  double optimizer = 0;  ///< bytes that Adam reads and writes
};

Work work_of(const Graph& graph, const Plan& plan);

/// Returns the microseconds of all work at the machine's limits, without overlap.
double roofline(const Work& work, Arithmetics arithmetics, const Limits& limits);

}  // namespace qtape::bench
