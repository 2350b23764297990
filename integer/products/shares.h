// Division of the rows of a product among workers.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace qtape {

struct RowShare {
  int64_t begin;
  int64_t end;
};

/// Divides [0, rows) into shares of nearly equal size, at least one: one per thread as long as
/// each has at least `worker_work` of the total `work`.
inline std::vector<RowShare> shares_of(int64_t rows, int64_t work, int64_t worker_work,
                                       int threads) {
  const int64_t useful = std::clamp<int64_t>(work / worker_work, 1, threads);
  const int64_t count = std::clamp<int64_t>(rows, 1, useful);
  std::vector<RowShare> shares;
  for (int64_t i = 0; i < count; ++i) {
    shares.push_back({rows * i / count, rows * (i + 1) / count});
  }
  return shares;
}

}  // namespace qtape
