#include "qtape/ops/embedding.h"

#include <algorithm>
#include <array>

#include "qtape/kernels/simd/threads.h"
#include "qtape/kernels/simd/vectorize.h"
#include "qtape/kernels/simd/versions.h"

namespace qtape {

using namespace kernels;
namespace {

struct Table {
  int64_t rows = 0;
  int64_t width = 0;
  int64_t places = 0;  ///< number of elements of indices
  int64_t first = 0;   ///< position in the batch of the first element

  bool has(int32_t index) const { return index >= 0 && index < rows; }
  /// Minimum number of rows of y or dtable per thread.
  int64_t grain() const { return std::max<int64_t>(1, pointwise_grain / width); }
};

Table table_of(const Binding& b) {
  const TensorType& indices = b.inputs[1];
  const int64_t samples =
      indices.shape.rank() == 0 ? 1 : std::max<int64_t>(1, indices.shape[0]);
  return {b.inputs[0].shape[0], b.inputs[0].shape[1], indices.elements(),
          b.first_sample * (indices.elements() / samples)};
}

void report_indices(const Table& table, const int32_t* indices, Fault& fault) {
  for (int64_t i = 0; i < table.places && fault.text == nullptr; ++i) {
    if (table.has(indices[i])) continue;
    fault = {"index {value} at position {index} is outside the table", table.first + i,
             static_cast<double>(indices[i])};
  }
}

/// Sorts the positions by index: those of index v are places[starts[v]] up to places[starts[v +
/// 1]] (exclusive). `starts` has one element more than the table has rows.
void sort_places(const Table& table, const int32_t* indices, int64_t* starts, int64_t* places) {
  std::fill_n(starts, table.rows + 1, int64_t{0});
  for (int64_t i = 0; i < table.places; ++i) {
    if (table.has(indices[i])) ++starts[indices[i]];
  }
  int64_t end = 0;
  for (int64_t v = 0; v <= table.rows; ++v) {
    end += starts[v];
    starts[v] = end;
  }
  for (int64_t i = table.places - 1; i >= 0; --i) {
    if (table.has(indices[i])) places[--starts[indices[i]]] = i;
  }
}

/// Elements of a row that are summed at once.
constexpr int64_t block = 128;

/// Computes rows [begin, end) of dtable.
template <class T, bool accumulate>
auto sum_loop() {
  return simd::best_for<T, const Table*, const int64_t*, const int64_t*, const T*, T*, int64_t,
                        int64_t>([](const Table* table, const int64_t* starts,
                                    const int64_t* places, const T* dy, T* dx, int64_t begin,
                                    int64_t end) {
    const int64_t n = table->width;
    std::array<double, block> sums;
    for (int64_t v = begin; v < end; ++v) {
      for (int64_t j0 = 0; j0 < n; j0 += block) {
        const int64_t width = std::min(block, n - j0);
        std::fill_n(sums.data(), width, 0.0);
        for (int64_t k = starts[v]; k < starts[v + 1]; ++k) {
          const T* from = dy + places[k] * n + j0;
          QTAPE_INDEPENDENT
          for (int64_t j = 0; j < width; ++j) sums[static_cast<size_t>(j)] += double{from[j]};
        }
        T* to = dx + v * n + j0;
        QTAPE_INDEPENDENT
        for (int64_t j = 0; j < width; ++j) {
          const T sum = static_cast<T>(sums[static_cast<size_t>(j)]);
          to[j] = accumulate ? to[j] + sum : sum;
        }
      }
    }
  });
}

}  // namespace

static_assert(Compute<Embedding>);

TensorType Embedding::infer(Inputs inputs) const {
  const TensorType& table = inputs[0];
  const TensorType& indices = inputs[1];
  check_compute(table);
  check(table.shape.rank() == 2 && table.elements() > 0,
        "table must be [vocabulary, width], both at least 1, got {}", to_string(table.shape));
  check(indices.dtype == DType::S32, "indices must be s32, got {}",
        to_string_view(indices.dtype));
  check(indices.shape.rank() < Shape::max_rank, "indices may have at most 7 axes, got {}",
        to_string(indices.shape));
  std::vector<int64_t> extents(indices.shape.extents().begin(), indices.shape.extents().end());
  extents.push_back(table.shape[1]);
  return {table.dtype, Shape(extents)};
}

Kernel Embedding::forward(const Binding& b) const {
  if (b.output.elements() == 0) return {};
  const Table table = table_of(b);
  return dispatch_compute(b.output.dtype, [&]<class T>() -> Kernel {
    return [table, rows = b.operand<const T>(0), indices = b.operand<const int32_t>(1),
            y = b.y<T>(), status = b.status, threads = b.threads](const Step&) {
      parallel_for(threads, table.places, 1, table.grain(), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          T* to = y + i * table.width;
          if (table.has(indices[i])) {
            std::copy_n(rows + indices[i] * table.width, table.width, to);
          } else {
            std::fill_n(to, table.width, T(0));
          }
        }
      });
      report_indices(table, indices, status->fault);
    };
  });
}

Kernel Embedding::backward(const Binding& b) const {
  if (!b.wanted(0)) return {};
  const Table table = table_of(b);
  return dispatch_compute(b.output.dtype, [&]<class T>() -> Kernel {
    const auto loop = b.accumulate(0) ? sum_loop<T, true>() : sum_loop<T, false>();
    auto* starts = reinterpret_cast<int64_t*>(b.scratch);
    return [table, loop, starts, places = starts + table.rows + 1,
            indices = b.operand<const int32_t>(1), dy = b.dy_as<const T>(), dx = b.dx<T>(0),
            threads = b.threads](const Step&) {
      sort_places(table, indices, starts, places);
      parallel_for(threads, table.rows, 1, table.grain(), [&](int64_t begin, int64_t end) {
        loop(&table, starts, places, dy, dx, begin, end);
      });
    };
  });
}

}  // namespace qtape
