// The work that a training step cannot do without, and the time that takes at best.
#pragma once

#include "qtape/bench/limits.h"
#include "qtape/bench/networks.h"
#include "qtape/engine/graph.h"
#include "qtape/engine/plan.h"

namespace qtape::bench {

struct Work {
  double forward = 0;    ///< multiplications and additions of products
  double backward = 0;   ///< of their gradients that are wanted
  double optimizer = 0;  ///< bytes that Adam reads and writes
};

Work work_of(const Graph& graph, const Plan& plan);

/// Microseconds, all of it at the machine's limits and one after another.
double roofline(const Work& work, Arithmetics arithmetics, const Limits& limits);

}  // namespace qtape::bench
