#include "qtape/ops/families/shard_sums.h"

#include <algorithm>

#include "qtape/core/aligned.h"
#include "qtape/core/half.h"
#include "qtape/kernels/simd/threads.h"
#include "qtape/kernels/simd/vectorize.h"
#include "qtape/kernels/simd/versions.h"

namespace qtape {

using namespace kernels;
namespace {

// Elements of a tensor for which all merges are performed in a row, while they are in cache.
constexpr int64_t merged_at_once = 1024;

template <class S>
auto merge_loop() {
  return simd::best<S*, const S*, int64_t>([](S* to, const S* from, int64_t n) {
    QTAPE_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) {
      to[i] = Storage<S>::store(Storage<S>::load(to[i]) + Storage<S>::load(from[i]));
    }
  });
}

template <class S, bool accumulate>
auto write_loop() -> void (*)(S*, const S*, typename Storage<S>::Compute, int64_t) {
  using T = typename Storage<S>::Compute;
  return simd::best<S*, const S*, T, int64_t>([](S* to, const S* from, T factor, int64_t n) {
    QTAPE_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) {
      const T value = Storage<S>::load(from[i]) * factor;
      to[i] = Storage<S>::store(accumulate ? Storage<S>::load(to[i]) + value : value);
    }
  });
}

}  // namespace

int64_t ShardSums::bytes(const Shards& shards, const TensorType& type) {
  return ShardValues::bytes(shards, aligned_size(type.bytes()));
}

ShardSums::ShardSums(const Shards& shards, const TensorType& type, std::byte* memory,
                     int threads)
    : values_(shards, memory, aligned_size(type.bytes())),
      type_(type),
      stride_(aligned_size(type.bytes())),
      threads_(threads) {}

template <class S>
void ShardSums::finish_as(S* to, bool accumulate, double factor) const {
  const auto add = merge_loop<S>();
  const auto write = accumulate ? write_loop<S, true>() : write_loop<S, false>();
  const std::byte* sum = values_.merge([&](std::byte* first, ShardValues::Merges merges) {
    parallel_for(threads_, type_.elements(), merged_at_once, pointwise_grain,
                 [&](int64_t begin, int64_t end) {
                   for (int64_t i = begin; i < end; i += merged_at_once) {
                     const int64_t n = std::min(merged_at_once, end - i);
                     for (const ShardTree::Merge& each : merges) {
                       add(reinterpret_cast<S*>(first + each.into * stride_) + i,
                           reinterpret_cast<const S*>(first + each.from * stride_) + i, n);
                     }
                   }
                 });
  });
  parallel_for(threads_, type_.elements(), merged_at_once, pointwise_grain,
               [&](int64_t begin, int64_t end) {
                 write(to + begin, reinterpret_cast<const S*>(sum) + begin,
                       static_cast<typename Storage<S>::Compute>(factor), end - begin);
               });
}

void ShardSums::finish(std::byte* to, bool accumulate, double factor) const {
  dispatch_float(type_.dtype,
                 [&]<class S>() { finish_as(reinterpret_cast<S*>(to), accumulate, factor); });
}

void scale_tensor(const TensorType& type, const std::byte* from, double factor, std::byte* to) {
  dispatch_float(type.dtype, [&]<class S>() {
    write_loop<S, false>()(reinterpret_cast<S*>(to), reinterpret_cast<const S*>(from),
                           static_cast<typename Storage<S>::Compute>(factor), type.elements());
  });
}

}  // namespace qtape
