// How workers share the rows of a product.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace qtape {

struct RowShare {
  int64_t begin;
  int64_t end;
};

/// [0, rows) in shares of nearly one size, at least one: as many as threads, if each has
/// `worker_work` of the `work` to do.
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
