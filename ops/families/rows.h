// Kernels that move rows: blocks of consecutive elements at a regular distance, such as the
// parts of a tensor along an axis.
#pragma once

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "qtape/ops/families/copy.h"

namespace qtape {

/// Positions of `count` rows of `width` elements in a source and in a target: row r starts at r
/// * from_stride and r * to_stride.
struct Rows {
  int64_t count = 0;
  int64_t width = 0;
  int64_t from_stride = 0;
  int64_t to_stride = 0;

  int64_t elements() const { return count * width; }
  Rows operator*(int64_t factor) const {
    return {count, width * factor, from_stride * factor, to_stride * factor};
  }
};

/// Calls `body(from, to, n)` with the offsets of each run of consecutive elements within
/// elements [begin, end), counted row by row.
template <class Body>
void for_each_run(const Rows& rows, int64_t begin, int64_t end, const Body& body) {
  int64_t row = begin / rows.width;
  int64_t at = begin % rows.width;
  for (int64_t left = end - begin; left > 0; ++row, at = 0) {
    const int64_t n = std::min(rows.width - at, left);
    body(row * rows.from_stride + at, row * rows.to_stride + at, n);
    left -= n;
  }
}

/// to = from for rows of elements of `size` bytes.
inline Kernel bind_copy_rows(const Rows& rows, int64_t size, const std::byte* from,
                             std::byte* to, int threads) {
  if (rows.elements() == 0) return {};
  return [rows = rows * size, from, to, threads](const Step&) {
    parallel_for(threads, rows.elements(), 4096, copy_grain, [&](int64_t begin, int64_t end) {
      for_each_run(rows, begin, end, [&](int64_t source, int64_t target, int64_t n) {
        std::memcpy(to + target, from + source, static_cast<size_t>(n));
      });
    });
  };
}

/// to += from, computed in float for f16 and bf16.
template <class T>
Kernel bind_add_rows(const Rows& rows, const T* from, T* to, int threads) {
  if (rows.elements() == 0) return {};
  return [rows, from, to, threads, loop = add_loop<T>()](const Step&) {
    parallel_for(
        threads, rows.elements(), 1024, pointwise_grain, [&](int64_t begin, int64_t end) {
          for_each_run(rows, begin, end, [&](int64_t source, int64_t target, int64_t n) {
            loop(from + source, to + target, n);
          });
        });
  };
}

/// to = from, or to += from, for rows of floats.
inline Kernel bind_move_rows(const Rows& rows, DType dtype, const std::byte* from,
                             std::byte* to, bool accumulate, int threads) {
  if (!accumulate) return bind_copy_rows(rows, size_of(dtype), from, to, threads);
  return dispatch_float(dtype, [&]<class T>() {
    return bind_add_rows(rows, reinterpret_cast<const T*>(from), reinterpret_cast<T*>(to),
                         threads);
  });
}

/// A source of `bind_join_rows`: `width` bytes of each row, row after row; zeros if `data` is
/// null.
struct RowPart {
  const std::byte* data = nullptr;
  int64_t width = 0;
};

/// Writes bytes [begin, end) of joined rows of `width` bytes.
inline void join_rows(const std::vector<RowPart>& parts, int64_t width, std::byte* to,
                      int64_t begin, int64_t end) {
  int64_t row = begin / width;
  int64_t skip = begin % width;
  while (begin < end) {
    for (const RowPart& part : parts) {
      const int64_t from = std::min(skip, part.width);
      const int64_t n = std::min(part.width - from, end - begin);
      skip -= from;
      if (part.data == nullptr) {
        std::memset(to + begin, 0, static_cast<size_t>(n));
      } else {
        std::memcpy(to + begin, part.data + row * part.width + from, static_cast<size_t>(n));
      }
      begin += n;
    }
    ++row;
  }
}

/// Writes `count` rows to `to`, each the concatenation of the corresponding rows of `parts`.
inline Kernel bind_join_rows(std::vector<RowPart> parts, int64_t count, std::byte* to,
                             int threads) {
  std::erase_if(parts, [](const RowPart& part) { return part.width == 0; });
  int64_t width = 0;
  for (const RowPart& part : parts) width += part.width;
  if (count * width == 0) return {};
  return [parts = std::move(parts), count, width, to, threads](const Step&) {
    parallel_for(threads, count * width, 4096, copy_grain,
                 [&](int64_t begin, int64_t end) { join_rows(parts, width, to, begin, end); });
  };
}

}  // namespace qtape
