// Graphs of random pieces under construction.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "qtape/core/random.h"
#include "qtape/engine/quantizers.h"

namespace qtape::test {

class NetDraws {
 protected:
  NetDraws(uint64_t seed, uint64_t stream) : random_(seed, stream) {}

  int64_t below(int64_t n) {
    return static_cast<int64_t>(random_.below(draws_++, static_cast<uint64_t>(n)));
  }
  double between(double low, double high) {
    return low + (high - low) * random_.uniform(draws_++);
  }
  template <class T>
  T pick(const std::vector<T>& from) {
    return from[static_cast<size_t>(below(std::ssize(from)))];
  }
  /// Returns a label that no other node has.
  std::string name(const char* kind) { return fmt::format("{}{}", kind, names_++); }
  const Shape& shape(NodeId x) const { return graph_[x].type.shape; }

  Graph graph_;

 private:
  Random random_;
  uint64_t draws_ = 0;
  int names_ = 0;
};

}  // namespace qtape::test
