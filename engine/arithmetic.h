// The arithmetic of a tape's forward: that of the ops, or another one such as exact integers.
#pragma once

#include <functional>
#include <memory>

namespace qtape {

class ForwardArithmetic;
class Graph;

/// Arithmetic of a tape's forward between quantized operands: see integer/training/exact.h.
struct Arithmetic {
  /// Creates the replacement of the kernels of one layout; if it returns null, forward computes
  /// in floats. `encodes`: values may be held as codes, because all quantizers apply in the
  /// steps that it computes.
  using Maker = std::function<std::unique_ptr<ForwardArithmetic>(bool encodes)>;
  /// Prepares the arithmetic of a graph for all layouts of a tape; empty for floats.
  std::function<Maker(std::shared_ptr<const Graph> graph, int threads)> prepare = {};
};

}  // namespace qtape
