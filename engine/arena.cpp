#include "qtape/engine/arena.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <queue>
#include <set>
#include <utility>

#include "qtape/core/error.h"
#include "qtape/core/random.h"
#include "qtape/engine/plan.h"

namespace qtape {
namespace {

constexpr int64_t max_arena_bytes = int64_t{1} << 60;

/// Free space of a block that grows at its end.
class FreeSpace {
 public:
  /// Allocates `bytes` bytes: returns the start of the smallest gap that holds them, or the
  /// end.
  int64_t take(int64_t bytes) {
    const auto fit = by_size_.lower_bound({bytes, 0});
    if (fit == by_size_.end()) return grow(bytes);
    const auto [size, offset] = *fit;
    remove(offset, size);
    if (size > bytes) insert(offset + bytes, size - bytes);
    return offset;
  }

  void give(int64_t offset, int64_t bytes) {
    const auto next = by_offset_.lower_bound(offset);
    if (next != by_offset_.end() && next->first == offset + bytes) {
      bytes += next->second;
      remove(next->first, next->second);
    }
    const auto after = by_offset_.lower_bound(offset);
    if (after != by_offset_.begin()) {
      const auto [start, size] = *std::prev(after);
      if (start + size == offset) {
        remove(start, size);
        offset = start;
        bytes += size;
      }
    }
    insert(offset, bytes);
  }

  int64_t size() const { return size_; }

 private:
  /// Extends the block, using a gap at its end if there is one.
  int64_t grow(int64_t bytes) {
    int64_t offset = size_;
    if (!by_offset_.empty()) {
      const auto [start, size] = *by_offset_.rbegin();
      if (start + size == size_) {
        remove(start, size);
        offset = start;
      }
    }
    require<Error>(bytes <= max_arena_bytes - offset,
                   "cannot allocate {} bytes after {} others: the arena would exceed 2^60",
                   bytes, offset);
    size_ = offset + bytes;
    return offset;
  }

  void insert(int64_t offset, int64_t size) {
    by_offset_.emplace(offset, size);
    by_size_.emplace(size, offset);
  }

  void remove(int64_t offset, int64_t size) {
    by_offset_.erase(offset);
    by_size_.erase({size, offset});
  }

  std::map<int64_t, int64_t> by_offset_;
  std::set<std::pair<int64_t, int64_t>> by_size_;
  int64_t size_ = 0;
};

/// Returns the buffers with time reversed.
std::vector<Lifetime> mirrored(std::vector<Lifetime> buffers) {
  for (Lifetime& each : buffers) {
    each.begin = -std::exchange(each.end, -each.begin);
  }
  return buffers;
}

std::vector<size_t> order_of_begin(const std::vector<Lifetime>& buffers) {
  std::vector<size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) {
    return std::pair(buffers[a].begin, -buffers[a].bytes) <
           std::pair(buffers[b].begin, -buffers[b].bytes);
  });
  return order;
}

/// Size of a buffer including the guard after it, both rounded up.
class Sizes {
 public:
  Sizes(int64_t guard, int64_t step) : guard_(guard), step_(step) {}

  int64_t of(const Lifetime& buffer) const {
    return rounded_up(std::max<int64_t>(buffer.bytes, 1)) + rounded_up(guard_);
  }

 private:
  int64_t rounded_up(int64_t bytes) const { return (bytes + step_ - 1) / step_ * step_; }

  int64_t guard_;
  int64_t step_;
};

/// Assigns offsets in one sweep over time; returns the bytes of the block.
int64_t sweep(std::vector<Lifetime>& buffers, bool share, const Sizes& sizes) {
  FreeSpace space;
  using Ending = std::pair<int64_t, size_t>;
  std::priority_queue<Ending, std::vector<Ending>, std::greater<>> live;
  const auto padded = [&](size_t i) { return sizes.of(buffers[i]); };
  for (size_t i : order_of_begin(buffers)) {
    while (share && !live.empty() && live.top().first < buffers[i].begin) {
      space.give(buffers[live.top().second].offset, padded(live.top().second));
      live.pop();
    }
    buffers[i].offset = space.take(padded(i));
    live.emplace(buffers[i].end, i);
  }
  return space.size();
}

/// Indices of the buffers, largest first.
std::vector<size_t> order_of_size(const std::vector<Lifetime>& buffers, const Sizes& sizes) {
  std::vector<size_t> order = order_of_begin(buffers);
  std::ranges::stable_sort(order, std::greater<>(),
                           [&](size_t i) { return sizes.of(buffers[i]); });
  return order;
}

/// Places buffers in `order`, each in the smallest gap between the buffers with which it
/// overlaps in time. Returns the bytes of the block.
int64_t pack(std::vector<Lifetime>& buffers, const std::vector<size_t>& order,
             const Sizes& sizes) {
  std::vector<size_t> placed;  // by offset
  int64_t bytes = 0;
  for (size_t i : order) {
    Lifetime& own = buffers[i];
    const int64_t size = sizes.of(own);
    int64_t end = 0;  // end of the placed buffers with which it overlaps in time
    int64_t best = std::numeric_limits<int64_t>::max();
    std::optional<int64_t> found;
    for (size_t other : placed) {
      const Lifetime& each = buffers[other];
      if (each.end < own.begin || own.end < each.begin) continue;
      const int64_t gap = each.offset - end;
      if (gap >= size && gap < best) {
        best = gap;
        found = end;
      }
      end = std::max(end, each.offset + sizes.of(each));
    }
    own.offset = found.value_or(end);
    bytes = std::max(bytes, own.offset + size);
    const auto at = std::ranges::upper_bound(
        placed, own.offset, {}, [&](size_t other) { return buffers[other].offset; });
    placed.insert(at, i);
  }
  return bytes;
}

/// Largest number of bytes in use at one time, rounded up: a lower bound of the block.
int64_t lower_bound(const std::vector<Lifetime>& buffers, const Sizes& sizes) {
  std::map<int64_t, int64_t> changes;  // by time
  for (const Lifetime& each : buffers) {
    changes[each.begin] += sizes.of(each);
    changes[each.end + 1] -= sizes.of(each);
  }
  int64_t live = 0;
  int64_t most = 0;
  for (const auto& [time, change] : changes) most = std::max(most, live += change);
  return most;
}

/// Tries other orders near `order` until the block is `bound` bytes, and keeps the best.
void search(std::vector<Lifetime>& buffers, int64_t& least, int64_t bound,
            std::vector<size_t> order, const Sizes& sizes) {
  constexpr uint64_t tries = 1000;
  const Random random(0, 31);
  std::vector<Lifetime> other = buffers;
  int64_t reached = pack(other, order, sizes);
  for (uint64_t i = 0; i < tries && least > bound; ++i) {
    std::vector<size_t> next = order;
    const auto from = next.begin() + static_cast<int64_t>(random.below(2 * i, next.size()));
    const auto to = next.begin() + static_cast<int64_t>(random.below(2 * i + 1, next.size()));
    if (to < from) std::rotate(to, from, from + 1);
    if (from < to) std::rotate(from, from + 1, to + 1);
    const int64_t bytes = pack(other, next, sizes);
    if (bytes > reached) continue;
    reached = bytes;
    order = std::move(next);
    if (bytes >= least) continue;
    least = bytes;
    for (size_t k = 0; k < buffers.size(); ++k) buffers[k].offset = other[k].offset;
  }
}

/// Largest number of buffers for packing by size, which takes quadratic time.
constexpr size_t max_by_size = 2000;
/// Largest number of buffers for a search, which packs many times.
constexpr size_t max_to_search = 100;

}  // namespace

int64_t assign_arena_offsets(std::vector<Lifetime>& buffers, bool share, int64_t guard,
                             int64_t step) {
  const Sizes sizes(guard, step);
  int64_t least = sweep(buffers, share, sizes);
  if (!share) return least;
  const auto keep_if_smaller = [&](const std::vector<Lifetime>& other, int64_t bytes) {
    if (bytes >= least) return;
    least = bytes;
    for (size_t i = 0; i < buffers.size(); ++i) buffers[i].offset = other[i].offset;
  };
  std::vector<Lifetime> other = mirrored(buffers);
  int64_t bytes = sweep(other, share, sizes);
  keep_if_smaller(other, bytes);
  if (buffers.size() <= max_by_size) {
    bytes = pack(other, order_of_size(other, sizes), sizes);
    keep_if_smaller(other, bytes);
  }
  if (buffers.size() <= max_to_search && !buffers.empty()) {
    search(buffers, least, lower_bound(buffers, sizes), order_of_size(buffers, sizes), sizes);
  }
  return least;
}

}  // namespace qtape
