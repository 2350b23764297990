// Statistics of one batch of a tensor, by channel.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "qtape/calibrate/observer_state.h"
#include "qtape/core/granularity.h"

namespace qtape::detail {

/// Calls `visit(channel, run)` for each run of consecutive elements of one channel, in order.
template <class T, class Visit>
void for_each_run(std::span<const T> x, const ChannelMap& map, const Visit& visit) {
  if (map.channels == 1) return visit(int64_t{0}, x);
  const auto elements = static_cast<int64_t>(x.size());
  for (int64_t block = 0; block < elements; block += map.block) {
    const int64_t end = std::min(block + map.block, elements);
    const int64_t first = block / map.block * map.stride;
    int64_t turn = block / map.segment % map.wrap;
    for (int64_t begin = block; begin < end; begin += map.segment) {
      const int64_t length = std::min(map.segment, end - begin);
      visit(first + turn, x.subspan(static_cast<size_t>(begin), static_cast<size_t>(length)));
      turn = turn + 1 == map.wrap ? 0 : turn + 1;
    }
  }
}

/// Count, range and the requested statistics of each channel's finite values. T = float or
/// double.
template <class T>
std::vector<ChannelRecord> records_of(std::span<const T> x, const ChannelMap& map,
                                      const Collected& wanted);

}  // namespace qtape::detail
