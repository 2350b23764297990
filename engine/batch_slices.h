// Analysis of a graph whose batch is divided into shards: the values that consist of samples.
#pragma once

#include <cstdint>
#include <vector>

#include "qtape/engine/graph.h"
#include "qtape/ops/core/shards.h"

namespace qtape {

/// Least number of samples of a shard: kernels of a single sample may sum in another order than
/// those of several samples.
inline constexpr int64_t min_samples = 2;

/// A graph whose inputs hold the samples of the shards of one process. By node; empty if the
/// batch is not divided.
struct BatchSlices {
  Shards shards = {};
  std::vector<TensorType> types = {};  ///< type of the value for one shard
  std::vector<bool> batched = {};      ///< the value has the samples along axis 0
  /// Quantizers: each scale belongs to one sample, so that scales do not depend on the batch.
  std::vector<bool> own_scales = {};

  bool any() const { return shards.any(); }
};

/// Throws ArgumentError unless the batch of `graph` has equally many samples, at least
/// `min_samples`, for each shard of this process, and GraphError for a node whose value
/// depends on the division: samples along an axis other than 0, values that mix samples, and
/// reductions of the batch without BatchReduction.
BatchSlices slice_batch(const Graph& graph, const Shards& shards);

}  // namespace qtape
