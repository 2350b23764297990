#include "qtape/ops/core/shards.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "qtape/core/error.h"

namespace qtape {
namespace {

constexpr int64_t max_shards = 1024;

/// First shard of `rank`.
int64_t first_of(int64_t total, int rank, int ranks) { return total * rank / ranks; }

/// Rank that owns all shards in [begin, end), or -1.
int owner_of(int64_t total, int ranks, int64_t begin, int64_t end) {
  for (int rank = 0; rank < ranks; ++rank) {
    if (begin >= first_of(total, rank, ranks) && end <= first_of(total, rank + 1, ranks)) {
      return rank;
    }
  }
  return -1;
}

}  // namespace

Shards Shards::alone(int64_t total) {
  require<ArgumentError>(total >= 1 && total <= max_shards, "shards must be in [1, {}], got {}",
                         max_shards, total);
  return {.total = total, .first = 0, .count = total};
}

Shards Shards::of(int64_t total, Exchange& exchange) {
  Shards shards = alone(total);
  const int ranks = exchange.ranks();
  if (ranks == 1) return shards;
  require<ArgumentError>(ranks <= total,
                         "{} processes need at least {} shards of a batch, got {}", ranks,
                         ranks, total);
  shards.first = first_of(total, exchange.rank(), ranks);
  shards.count = first_of(total, exchange.rank() + 1, ranks) - shards.first;
  shards.exchange = &exchange;
  return shards;
}

void Shards::check() const {
  const Shards made = exchange == nullptr ? alone(total) : of(total, *exchange);
  require<ArgumentError>(
      first == made.first && count == made.count,
      "shards: expected {} of {} from {} on in this process, got {} from {} on; "
      "Shards::alone and Shards::of make them",
      made.count, total, made.first, count, first);
}

ShardTree::ShardTree(const Shards& shards) : by_rank_(static_cast<size_t>(shards.ranks())) {
  const int ranks = shards.ranks();
  const int own = shards.exchange == nullptr ? 0 : shards.exchange->rank();
  std::vector<bool> merged(
      static_cast<size_t>(shards.total));  // into another shard by its rank
  std::vector<Merge> rest;
  for (int64_t step = 1; step < shards.total; step *= 2) {
    for (int64_t i = 0; i + step < shards.total; i += 2 * step) {
      const int owner = owner_of(shards.total, ranks, i, std::min(i + 2 * step, shards.total));
      if (owner < 0) {
        rest.push_back({i, i + step});
        continue;
      }
      merged[static_cast<size_t>(i + step)] = true;
      if (owner == own) own_.push_back({i - shards.first, i + step - shards.first});
    }
  }
  std::vector<int64_t> place(merged.size());  // among the gathered values
  int64_t gathered = 0;
  for (int64_t i = 0; i < shards.total; ++i) {
    if (merged[static_cast<size_t>(i)]) continue;
    place[static_cast<size_t>(i)] = gathered++;
    const int owner = owner_of(shards.total, ranks, i, i + 1);
    ++by_rank_[static_cast<size_t>(owner)];
    if (owner == own) remaining_.push_back(i - shards.first);
  }
  for (const Merge& each : rest) {
    rest_.push_back(
        {place[static_cast<size_t>(each.into)], place[static_cast<size_t>(each.from)]});
  }
}

int64_t ShardValues::bytes(const Shards& shards, int64_t stride) {
  if (shards.ranks() == 1) return shards.count * stride;
  const ShardTree tree(shards);
  const auto by_rank = tree.by_rank();
  return (shards.count + std::accumulate(by_rank.begin(), by_rank.end(), int64_t{0})) * stride;
}

ShardValues::ShardValues(const Shards& shards, std::byte* memory, int64_t stride)
    : tree_(shards),
      exchange_(shards.ranks() == 1 ? nullptr : shards.exchange),
      memory_(memory),
      stride_(stride),
      count_(shards.count) {
  for (const int64_t values : tree_.by_rank()) rank_bytes_.push_back(values * stride);
}

std::byte* ShardValues::gather() const {
  int64_t packed = 0;
  for (const int64_t from : tree_.remaining()) {
    if (from != packed) {
      std::memcpy(value(packed), value(from), static_cast<size_t>(stride_));
    }
    ++packed;
  }
  std::byte* all = value(count_);
  exchange_->gather({memory_, static_cast<size_t>(packed * stride_)}, rank_bytes_, all);
  return all;
}

}  // namespace qtape
