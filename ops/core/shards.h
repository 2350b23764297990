// Shards: the fixed division of a batch. Sums over a batch add the sums of its shards in a
// binary tree, so their bits depend neither on threads nor on the processes that share the
// batch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace qtape {

/// Communication between the ranks that share a batch. All ranks call the same functions in the
/// same order, each from one thread.
class Exchange {
 public:
  virtual ~Exchange() = default;
  virtual int rank() const = 0;
  virtual int ranks() const = 0;
  /// Copies the bytes of all ranks to `all`, in the order of ranks. Rank r contributes
  /// bytes[r]; `own` is the contribution of this rank. May throw if a rank is lost.
  virtual void gather(std::span<const std::byte> own, std::span<const int64_t> bytes,
                      std::byte* all) = 0;
};

/// The shards of a batch, each of the same number of consecutive samples, and those of this
/// process. Created by `alone` or `of`.
struct Shards {
  int64_t total = 1;             ///< shards of the batch
  int64_t first = 0;             ///< first shard of this process
  int64_t count = 1;             ///< number of shards of this process
  Exchange* exchange = nullptr;  ///< null if this process has all shards, 0 to `total` - 1

  /// True if sums are formed by shards.
  bool any() const { return total > 1; }
  int ranks() const { return exchange == nullptr ? 1 : exchange->ranks(); }
  /// Number of shards of this process that are computed at the same time: one per thread, or
  /// one by all threads if there are more threads than shards.
  int lanes(int threads) const { return threads <= count ? threads : 1; }

  /// All shards in this process. Throws ArgumentError unless `total` is in [1, 1024].
  static Shards alone(int64_t total);
  /// The shards of the rank of `exchange`: rank r of n has those from total r / n on. Throws
  /// ArgumentError if there are more ranks than shards.
  static Shards of(int64_t total, Exchange& exchange);
  /// Throws ArgumentError unless these equal the result of `alone`, or of `of` with the
  /// exchange.
  void check() const;
};

/// The binary tree over all shards: for distances 1, 2, 4, … the value of shard i + distance is
/// merged into that of shard i, for all multiples i of twice the distance. A rank performs the
/// merges within its range; every rank receives the values that remain and performs the rest.
class ShardTree {
 public:
  /// Indices of values; the second one is merged into the first.
  struct Merge {
    int64_t into;
    int64_t from;
  };

  explicit ShardTree(const Shards& shards);

  /// Merges of the values of this process, by index in its range.
  std::span<const Merge> own() const { return own_; }
  /// Values that remain after these merges, by index in its range.
  std::span<const int64_t> remaining() const { return remaining_; }
  /// Number of remaining values of each rank.
  std::span<const int64_t> by_rank() const { return by_rank_; }
  /// Merges of the gathered values, in the order of ranks; the result is value 0.
  std::span<const Merge> rest() const { return rest_; }

 private:
  std::vector<Merge> own_;
  std::vector<int64_t> remaining_;
  std::vector<int64_t> by_rank_;
  std::vector<Merge> rest_;
};

/// Memory of one value per shard, and the merges of these values.
class ShardValues {
 public:
  using Merges = std::span<const ShardTree::Merge>;

  /// Bytes of memory for values that are `stride` bytes apart.
  static int64_t bytes(const Shards& shards, int64_t stride);

  ShardValues(const Shards& shards, std::byte* memory, int64_t stride);

  /// Value of a shard of this process, by index in its range.
  std::byte* value(int64_t shard) const { return memory_ + shard * stride_; }

  /// Merges the values of all shards and returns the address of the result. `merge(first,
  /// merges)` performs `merges` of values of which the first one is at `first`.
  template <class Merge>
  std::byte* merge(const Merge& merge) const {
    merge(memory_, tree_.own());
    if (exchange_ == nullptr) return memory_;
    std::byte* gathered = gather();
    merge(gathered, tree_.rest());
    return gathered;
  }

 private:
  std::byte* gather() const;

  ShardTree tree_;
  Exchange* exchange_;
  std::byte* memory_;
  int64_t stride_;
  int64_t count_;
  std::vector<int64_t> rank_bytes_;
};

}  // namespace qtape
