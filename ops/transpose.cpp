#include "qtape/ops/transpose.h"

#include <algorithm>
#include <array>

#include "qtape/kernels/simd/vectorize.h"
#include "qtape/ops/families/copy.h"

namespace qtape {
namespace {

/// One axis of the result: its extent and the strides of source and result along it.
struct MoveAxis {
  int64_t extent = 1;
  int64_t from = 0;
  int64_t to = 0;
};

/// A permuted copy as matrices that are each transposed or copied, one for each element of
/// `outer`. `rows` has source stride 1 and `columns` has result stride 1. If both are the same
/// axis, it is `columns`, and there is a single row.
struct Move {
  std::vector<MoveAxis> outer;
  MoveAxis rows;
  MoveAxis columns;
  int64_t matrices = 1;
  int64_t elements = 0;
};

/// Edge length of the squares that are transposed at once: 16 elements of f32 fill a cache
/// line.
constexpr int64_t tile = 16;

std::vector<int> resolve(const std::vector<int>& permutation, const Shape& shape) {
  std::vector<int> axes;
  for (int i = 0; i < shape.rank(); ++i) {
    const bool reversed = permutation.empty();
    axes.push_back(reversed ? shape.rank() - 1 - i
                            : resolve_axis(permutation[static_cast<size_t>(i)], shape));
  }
  return axes;
}

std::vector<int> inverse(const std::vector<int>& axes) {
  std::vector<int> result(axes.size());
  for (size_t i = 0; i < axes.size(); ++i) {
    result[static_cast<size_t>(axes[i])] = static_cast<int>(i);
  }
  return result;
}

/// Axes of the result, outermost first, without extents of 1; adjacent axes are merged.
std::vector<MoveAxis> move_axes(const Shape& from, const std::vector<int>& axes) {
  std::array<int64_t, Shape::max_rank> strides{};
  int64_t stride = 1;
  for (int i = from.rank() - 1; i >= 0; --i) {
    strides[static_cast<size_t>(i)] = stride;
    stride *= from[i];
  }
  std::vector<MoveAxis> result;
  for (int axis : axes) {
    const MoveAxis next{from[axis], strides[static_cast<size_t>(axis)], 0};
    if (next.extent == 1) continue;
    if (!result.empty() && result.back().from == next.from * next.extent) {
      result.back() = {result.back().extent * next.extent, next.from, 0};
    } else {
      result.push_back(next);
    }
  }
  stride = 1;
  for (size_t i = result.size(); i-- > 0;) {
    result[i].to = stride;
    stride *= result[i].extent;
  }
  return result;
}

Move plan_move(const Shape& from, const std::vector<int>& axes) {
  Move move;
  move.elements = from.elements();
  move.outer = move_axes(from, axes);
  if (move.elements == 0 || move.outer.empty()) return move;
  move.columns = move.outer.back();
  move.outer.pop_back();
  const auto unit = std::ranges::find(move.outer, 1, &MoveAxis::from);
  if (unit != move.outer.end()) {
    move.rows = *unit;
    move.outer.erase(unit);
  }
  for (const MoveAxis& axis : move.outer) move.matrices *= axis.extent;
  return move;
}

template <class T, bool accumulate>
inline void put(T from, T& to) {
  if constexpr (accumulate) {
    to = Storage<T>::store(Storage<T>::load(to) + Storage<T>::load(from));
  } else {
    to = from;
  }
}

/// Moves n elements from a column of the source to a row of the result.
template <class T, bool accumulate>
inline void move_column(const T* from, int64_t stride, T* to, int64_t n) {
  for (int64_t c = 0; c < n; ++c) put<T, accumulate>(from[c * stride], to[c]);
}

/// Moves rows [begin, end) of one matrix in tiles.
template <class T, bool accumulate>
void move_rows(const T* from, T* to, const Move& move, int64_t begin, int64_t end) {
  const int64_t stride = move.columns.from;
  for (int64_t r0 = begin; r0 < end; r0 += tile) {
    const int64_t r1 = std::min(r0 + tile, end);
    for (int64_t c = 0; c < move.columns.extent; c += tile) {
      const int64_t n = std::min(tile, move.columns.extent - c);
      for (int64_t r = r0; r < r1; ++r) {
        const T* x = from + r + c * stride;
        T* y = to + r * move.rows.to + c;
        // The constant length allows the loop to be unrolled, which is three times as fast.
        if (n == tile) {
          move_column<T, accumulate>(x, stride, y, tile);
        } else {
          move_column<T, accumulate>(x, stride, y, n);
        }
      }
    }
  }
}

/// Moves one matrix of a single row whose elements are contiguous.
template <class T, bool accumulate>
void move_line(const T* from, T* to, int64_t n) {
  QTAPE_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) put<T, accumulate>(from[i], to[i]);
}

/// Run-time parameters of a permuted copy.
template <class T, bool accumulate>
struct Mover {
  Move move;
  const T* from;
  T* to;

  /// Moves rows [begin, end), counted over all matrices.
  void operator()(int64_t begin, int64_t end) const {
    for (int64_t row = begin; row < end;) {
      const int64_t first = row % move.rows.extent;
      const int64_t last = std::min(move.rows.extent, first + end - row);
      int64_t index = row / move.rows.extent;
      int64_t source = 0;
      int64_t target = 0;
      for (size_t i = move.outer.size(); i-- > 0;) {
        source += index % move.outer[i].extent * move.outer[i].from;
        target += index % move.outer[i].extent * move.outer[i].to;
        index /= move.outer[i].extent;
      }
      if (move.columns.from <= 1) {
        move_line<T, accumulate>(from + source, to + target, move.columns.extent);
      } else {
        move_rows<T, accumulate>(from + source, to + target, move, first, last);
      }
      row += last - first;
    }
  }
};

template <class T, bool accumulate>
Kernel bind_move(const Move& move, const std::byte* from, std::byte* to, int threads) {
  if (move.elements == 0) return {};
  const Mover<T, accumulate> mover{move, reinterpret_cast<const T*>(from),
                                   reinterpret_cast<T*>(to)};
  const int64_t rows = move.matrices * move.rows.extent;
  const int64_t block = move.rows.extent == 1 ? 1 : tile;
  const int64_t grain = std::max<int64_t>(1, pointwise_grain / move.columns.extent);
  return [mover, rows, block, grain, threads](const Step&) {
    parallel_for(threads, rows, block, grain, mover);
  };
}

/// A copy moves bits, so only the element size matters.
Kernel bind_copy_move(const Move& move, const std::byte* from, std::byte* to, DType dtype,
                      int threads) {
  switch (size_of(dtype)) {
    case 1:
      return bind_move<uint8_t, false>(move, from, to, threads);
    case 2:
      return bind_move<uint16_t, false>(move, from, to, threads);
    case 4:
      return bind_move<uint32_t, false>(move, from, to, threads);
    default:
      return bind_move<uint64_t, false>(move, from, to, threads);
  }
}

}  // namespace

static_assert(Compute<Transpose>);

TensorType Transpose::infer(Inputs inputs) const {
  const Shape& x = inputs[0].shape;
  check(permutation.empty() || static_cast<int>(permutation.size()) == x.rank(),
        "permutation names {} axes, rank is {}", permutation.size(), x.rank());
  std::array<bool, Shape::max_rank> seen{};
  std::vector<int64_t> extents;
  for (int axis : resolve(permutation, x)) {
    check(!seen[static_cast<size_t>(axis)], "axis {} is given twice", axis);
    seen[static_cast<size_t>(axis)] = true;
    extents.push_back(x[axis]);
  }
  return {inputs[0].dtype, Shape(extents)};
}

Kernel Transpose::forward(const Binding& b) const {
  const Shape& x = b.inputs[0].shape;
  return bind_copy_move(plan_move(x, resolve(permutation, x)), b.operand<const std::byte>(0),
                        b.result, b.output.dtype, b.threads);
}

Kernel Transpose::backward(const Binding& b) const {
  if (!b.wanted(0) || !is_float(b.output.dtype)) return {};
  const std::vector<int> axes = resolve(permutation, b.inputs[0].shape);
  const Move move = plan_move(b.output.shape, inverse(axes));
  if (!b.accumulate(0)) {
    return bind_copy_move(move, b.dy, b.dx<std::byte>(0), b.output.dtype, b.threads);
  }
  return dispatch_float(b.output.dtype, [&]<class T>() {
    return bind_move<T, true>(move, b.dy, b.dx<std::byte>(0), b.threads);
  });
}

}  // namespace qtape
