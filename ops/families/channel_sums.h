// Sums over all axes of a tensor but the last, in an order that depends only on its extents and
// on the shards of the batch. Included only by channel_norm.h.
#pragma once

#include <algorithm>

#include "qtape/kernels/simd/threads.h"
#include "qtape/ops/core/op.h"

namespace qtape {

using namespace kernels;

/// x [..., channels] as blocks of `width` elements and as pieces of blocks. A block has several
/// rows if there are few channels. Sums add the blocks of a piece, then the pieces, then the
/// rows of a block; this order depends only on the extents.
struct ChannelRows {
  int64_t channels = 0;
  int64_t rows = 0;
  int64_t width = 0;
  int64_t blocks = 0;
  int64_t pieces = 1;

  explicit ChannelRows(const Shape& x) {
    constexpr int64_t lanes = 64;
    constexpr int64_t piece_elements = 32768;
    constexpr int64_t piece_blocks = 32;
    constexpr int64_t max_pieces = 64;
    channels = x[-1];
    rows = channels == 0 ? 0 : x.elements() / channels;
    width = channels * std::max<int64_t>(1, lanes / std::max<int64_t>(channels, 1));
    blocks = width == 0 ? 0 : (elements() + width - 1) / width;
    pieces = std::clamp<int64_t>(std::min(elements() / piece_elements, blocks / piece_blocks),
                                 1, max_pieces);
  }

  int64_t elements() const { return rows * channels; }
  /// First element of a piece; for the index after the last piece, the end.
  int64_t piece_begin(int64_t piece) const {
    return std::min(elements(), blocks * piece / pieces * width);
  }
};

/// Calls `body(shard, piece, begin, end)` for all pieces of all shards, each in one thread.
template <class Body>
void for_each_piece(const ChannelRows& rows, int64_t shards, int threads, const Body& body) {
  const int64_t grain =
      rows.pieces > 1
          ? 1
          : std::max<int64_t>(1, pointwise_grain / std::max<int64_t>(1, rows.elements()));
  parallel_for(threads, shards * rows.pieces, 1, grain, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      const int64_t shard = i / rows.pieces;
      const int64_t piece = i % rows.pieces;
      const int64_t start = shard * rows.elements();
      body(shard, piece, start + rows.piece_begin(piece), start + rows.piece_begin(piece + 1));
    }
  });
}

/// Two sums for each channel over the batch, in double. Each shard is summed on its own.
class ChannelSums {
 public:
  /// `rows` are those of one shard; `memory` holds count(rows, shards) doubles.
  ChannelSums(const ChannelRows& rows, const Shards& shards, double* memory)
      : rows_(rows),
        shards_(shards.count),
        values_(shards, reinterpret_cast<std::byte*>(memory), 2 * rows.width * size),
        pieces_(memory + value_count(rows, shards)) {}

  static int64_t count(const ChannelRows& rows, const Shards& shards) {
    return value_count(rows, shards) + 2 * rows.width * rows.pieces * shards.count;
  }

  /// Buffer for the sums of a piece: `width` first sums and then `width` second sums, set to 0.
  double* begin_piece(int64_t shard, int64_t piece) const {
    double* sums = pieces_ + 2 * rows_.width * (shard * rows_.pieces + piece);
    std::fill_n(sums, 2 * rows_.width, 0.0);
    return sums;
  }
  /// Adds up all pieces and shards. Returns `width` first sums and then `width` second sums, of
  /// which the first ones are those of the channels.
  const double* finish() const {
    for (int64_t s = 0; s < shards_; ++s) finish_shard(s);
    const int64_t count = 2 * rows_.width;
    return reinterpret_cast<const double*>(
        values_.merge([count](std::byte* first, ShardValues::Merges merges) {
          auto* values = reinterpret_cast<double*>(first);
          for (const ShardTree::Merge& each : merges) {
            for (int64_t k = 0; k < count; ++k) {
              values[each.into * count + k] += values[each.from * count + k];
            }
          }
        }));
  }

 private:
  static constexpr int64_t size = sizeof(double);

  static int64_t value_count(const ChannelRows& rows, const Shards& shards) {
    return ShardValues::bytes(shards, 2 * rows.width * size) / size;
  }

  void finish_shard(int64_t shard) const {
    auto* total = reinterpret_cast<double*>(values_.value(shard));
    const double* pieces = pieces_ + 2 * rows_.width * shard * rows_.pieces;
    std::copy_n(pieces, 2 * rows_.width, total);
    for (int64_t p = 1; p < rows_.pieces; ++p) {
      const double* more = pieces + 2 * rows_.width * p;
      for (int64_t k = 0; k < 2 * rows_.width; ++k) total[k] += more[k];
    }
    for (double* sums : {total, total + rows_.width}) {
      for (int64_t k = rows_.channels; k < rows_.width; k += rows_.channels) {
        for (int64_t c = 0; c < rows_.channels; ++c) sums[c] += sums[k + c];
      }
    }
  }

  ChannelRows rows_;
  int64_t shards_;
  ShardValues values_;
  double* pieces_;  // by shard and piece
};

/// Rows of one shard.
inline ChannelRows shard_rows(const Shape& x, const Shards& shards) {
  return ChannelRows(x.with(0, x[0] / shards.count));
}

}  // namespace qtape
