#include "qtape/kernels/onednn/filter_packing.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>
#include <type_traits>

#include "qtape/core/aligned.h"
#include "qtape/core/half.h"
#include "qtape/kernels/simd/threads.h"
#include "qtape/kernels/simd/versions.h"

namespace qtape::kernels {
namespace {

template <class T>
using Gather = void (*)(const float*, const int64_t*, T*, int64_t);

template <class T>
T packed_value(float x) {
  if constexpr (std::is_same_v<T, BHalf>) {
    return to_bhalf(x);
  } else {
    return x;
  }
}

template <class T>
Gather<T> gather() {
  return simd::best<const float*, const int64_t*, T*, int64_t>(
      [](const float* from, const int64_t* offsets, T* to, int64_t n) {
        for (int64_t i = 0; i < n; ++i) to[i] = packed_value<T>(from[offsets[i]]);
      });
}

/// Adds the axis of contiguous elements as a block to a layout without blocks, so that more
/// than one element is copied at a time.
void block_contiguous_axis(BlockedLayout& layout) {
  if (!layout.block_extents.empty()) return;
  for (size_t axis = 0; axis < layout.extents.size(); ++axis) {
    if (layout.strides[axis] != 1 || layout.extents[axis] == 1) continue;
    layout.block_extents = {layout.extents[axis]};
    layout.block_axes = {static_cast<int64_t>(axis)};
    return;
  }
}

}  // namespace

FilterPacking::FilterPacking(const dnnl::engine& engine, const dnnl::memory::desc& stored,
                             const float* from, const dnnl::memory::desc& packed, std::byte* to)
    : from_(from), to_(to), bf16_(data_type_of(packed) == dnnl::memory::data_type::bf16) {
  BlockedLayout layout = blocked_layout(packed);
  block_contiguous_axis(layout);
  rank_ = layout.extents.size();
  std::ranges::copy(layout.extents, extents_.begin());
  std::ranges::copy(layout.strides, to_strides_.begin());
  std::ranges::copy(blocked_layout(stored).strides, from_strides_.begin());
  block_extents_.fill(1);
  for (size_t i = 0; i < layout.block_extents.size(); ++i) {
    block_extents_[static_cast<size_t>(layout.block_axes[i])] *= layout.block_extents[i];
  }
  for (size_t axis = 0; axis < rank_; ++axis) {
    blocks_[axis] = layout.padded[axis] / block_extents_[axis];
  }
  const int64_t elements =
      std::accumulate(layout.block_extents.begin(), layout.block_extents.end(), int64_t{1},
                      std::multiplies<>());
  for (int64_t element = 0; element < elements; ++element) {
    Position position{}, weight;
    weight.fill(1);
    int64_t rest = element;
    for (size_t i = layout.block_extents.size(); i-- > 0;) {
      const auto axis = static_cast<size_t>(layout.block_axes[i]);
      position[axis] += rest % layout.block_extents[i] * weight[axis];
      weight[axis] *= layout.block_extents[i];
      rest /= layout.block_extents[i];
    }
    positions_.push_back(position);
    offsets_.push_back(std::inner_product(position.begin(), position.end(),
                                          from_strides_.begin(), int64_t{0}));
  }
  if (!reorders_rightly(engine, stored, packed)) return;
  reorder_ =
      make_reorder(engine, {stored, engine, const_cast<float*>(from)}, {packed, engine, to});
}

bool FilterPacking::reorders_rightly(const dnnl::engine& engine,
                                     const dnnl::memory::desc& stored,
                                     const dnnl::memory::desc& packed) const {
  std::vector<float> filters(stored.get_size() / sizeof(float));
  uint32_t state = 1;
  for (float& each : filters) {
    state = state * 1664525u + 1013904223u;
    each = static_cast<float>(1 + (state >> 20));
  }
  const size_t bytes = packed.get_size();
  // Bytes that are not written differ.
  AlignedBuffer ours(static_cast<int64_t>(bytes)), theirs(static_cast<int64_t>(bytes));
  std::memset(ours.data(), 0x11, bytes);
  std::memset(theirs.data(), 0x22, bytes);
  copy(filters.data(), ours.data(), 1);
  make_reorder(engine, {stored, engine, filters.data()}, {packed, engine, theirs.data()}).run();
  return std::memcmp(ours.data(), theirs.data(), bytes) == 0;
}

void FilterPacking::run(int threads) const {
  if (reorder_) return reorder_->run();
  copy(from_, to_, threads);
}

void FilterPacking::copy(const float* from, std::byte* to, int threads) const {
  const int64_t count = std::accumulate(blocks_.begin(), blocks_.begin() + int64_t(rank_),
                                        int64_t{1}, std::multiplies<>());
  const auto block = static_cast<int64_t>(offsets_.size());
  parallel_for(threads, count, 1, std::max<int64_t>(1, pointwise_grain / block),
               [&](int64_t begin, int64_t end) {
                 if (bf16_) {
                   copy_blocks(from, reinterpret_cast<BHalf*>(to), begin, end);
                 } else {
                   copy_blocks(from, reinterpret_cast<float*>(to), begin, end);
                 }
               });
}

FilterPacking::Position FilterPacking::block_at(int64_t index) const {
  Position block{};
  for (size_t axis = rank_; axis-- > 0;) {
    block[axis] = index % blocks_[axis];
    index /= blocks_[axis];
  }
  return block;
}

bool FilterPacking::is_inside(const Position& block, int64_t element) const {
  const Position& within = positions_[static_cast<size_t>(element)];
  for (size_t axis = 0; axis < rank_; ++axis) {
    if (block[axis] * block_extents_[axis] + within[axis] >= extents_[axis]) return false;
  }
  return true;
}

template <class T>
void FilterPacking::copy_blocks(const float* filters, T* packed, int64_t begin,
                                int64_t end) const {
  static const Gather<T> copy_block = gather<T>();
  const auto n = static_cast<int64_t>(offsets_.size());
  for (int64_t index = begin; index < end; ++index) {
    const Position block = block_at(index);
    const float* from = filters;
    T* to = packed;
    for (size_t axis = 0; axis < rank_; ++axis) {
      from += block[axis] * block_extents_[axis] * from_strides_[axis];
      to += block[axis] * to_strides_[axis];
    }
    // The last element is inside only if all others are.
    if (is_inside(block, n - 1)) {
      copy_block(from, offsets_.data(), to, n);
      continue;
    }
    for (int64_t i = 0; i < n; ++i) {
      const bool inside = is_inside(block, i);
      to[i] = inside ? packed_value<T>(from[offsets_[static_cast<size_t>(i)]]) : T{};
    }
  }
}

}  // namespace qtape::kernels
