// Filters of convolutions in the blocked layouts of oneDNN.
//
// oneDNN's reorder is used where it gives the same bytes as a plain loop on a trial. That of
// 3.7.2 loses filters where a block of channels is padded (f32: one channel in a group; bf16:
// odd numbers of channels as well).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "qtape/kernels/onednn/call.h"
#include "qtape/kernels/onednn/onednn.h"

namespace qtape::kernels {

/// Copies f32 filters to a blocked layout of f32 or bf16, rounded to nearest even, with zeros
/// in the padding of blocks.
class FilterPacking {
 public:
  /// `stored` describes `from` and has no blocks; `packed` describes `to`. Throws dnnl::error
  /// if `packed` is not a blocked layout.
  FilterPacking(const dnnl::engine& engine, const dnnl::memory::desc& stored, const float* from,
                const dnnl::memory::desc& packed, std::byte* to);

  /// Copies all filters in up to `threads` threads.
  void run(int threads) const;

 private:
  static constexpr size_t max_rank = 5;  // groups, outputs, inputs, height, width
  using Position = std::array<int64_t, max_rank>;

  bool reorders_rightly(const dnnl::engine& engine, const dnnl::memory::desc& stored,
                        const dnnl::memory::desc& packed) const;
  void copy(const float* from, std::byte* to, int threads) const;
  template <class T>
  void copy_blocks(const float* from, T* to, int64_t begin, int64_t end) const;
  Position block_at(int64_t index) const;
  bool is_inside(const Position& block, int64_t element) const;

  std::optional<Call> reorder_;  // absent if it is wrong for these layouts
  const float* from_;
  std::byte* to_;
  bool bf16_;
  size_t rank_;
  Position extents_{};               // of the filters
  Position blocks_{};                // number of blocks along each axis
  Position block_extents_{};         // of a block along each axis
  Position from_strides_{};          // in elements
  Position to_strides_{};            // in elements, from block to block
  std::vector<int64_t> offsets_;     // of the elements of a block in `from`
  std::vector<Position> positions_;  // of the elements of a block
};

}  // namespace qtape::kernels
