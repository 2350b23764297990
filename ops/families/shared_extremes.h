// Ranges measured on all ranks that share a batch.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "qtape/kernels/quantize/quantize_layout.h"
#include "qtape/ops/core/op.h"

namespace qtape {

/// Merges the ranges of the channels of a tensor over the ranks that hold parts of it. Minima,
/// maxima and counts do not depend on the order; a limit of 0 is +0.
template <class T>
class SharedExtremes {
 public:
  using Extremes = kernels::Extremes<T>;

  SharedExtremes(const Binding& b, int64_t channels) {
    if (b.shards == nullptr) return;
    const auto ranks = static_cast<size_t>(b.shards->ranks());
    if (ranks > 1) exchange_ = b.shards->exchange;
    bytes_.assign(ranks, channels * static_cast<int64_t>(sizeof(Extremes)));
    all_.resize(ranks * static_cast<size_t>(channels));
  }

  /// True if the tensor has samples of a batch in shards.
  bool any() const { return !bytes_.empty(); }

  /// Returns `own` merged with the ranges of the other ranks, valid until the next call.
  std::span<const Extremes> merge(std::span<const Extremes> own) const {
    if (!any()) return own;
    if (exchange_ == nullptr) {
      std::ranges::copy(own, all_.begin());
    } else {
      exchange_->gather(std::as_bytes(own), bytes_, reinterpret_cast<std::byte*>(all_.data()));
    }
    const std::span<Extremes> merged = std::span(all_).first(own.size());
    for (size_t i = own.size(); i < all_.size(); ++i) merged[i % own.size()].merge(all_[i]);
    for (Extremes& each : merged) {
      each.range.min += T(0);
      each.range.max += T(0);
    }
    return merged;
  }

 private:
  Exchange* exchange_ = nullptr;
  std::vector<int64_t> bytes_;         // by rank
  mutable std::vector<Extremes> all_;  // by rank and channel
};

}  // namespace qtape
