// Sums of tensors over the shards of a batch.
#pragma once

#include "qtape/core/types.h"
#include "qtape/ops/core/shards.h"

namespace qtape {

/// Sums of tensors of a float type over shards.
class ShardSums {
 public:
  /// Bytes of memory, which is 64-byte aligned.
  static int64_t bytes(const Shards& shards, const TensorType& type);

  ShardSums(const Shards& shards, const TensorType& type, std::byte* memory, int threads);

  /// Memory of the tensor of a shard of this process, 64-byte aligned.
  std::byte* value(int64_t shard) const { return values_.value(shard); }
  /// Adds up the tensors of all shards: `to` (+)= factor sum. `to` may not be one of them.
  void finish(std::byte* to, bool accumulate, double factor) const;

 private:
  template <class S>
  void finish_as(S* to, bool accumulate, double factor) const;

  ShardValues values_;
  TensorType type_;
  int64_t stride_;
  int threads_;
};

/// to = factor from, both of a float type.
void scale_tensor(const TensorType& type, const std::byte* from, double factor, std::byte* to);

}  // namespace qtape
