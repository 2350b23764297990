#include "qtape/integer/ops/embedding.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "qtape/integer/core/integer_binding.h"
#include "qtape/integer/ops/input.h"
#include "qtape/kernels/simd/threads.h"
#include "qtape/ops/families/copy.h"

namespace qtape::integer {
namespace {

/// True if the program bounds s32 `indices` by the number of rows, so that no run checks them.
bool is_within(const IntegerValue& indices, int64_t rows) {
  return indices.type.dtype == DType::S32 && indices.low >= 0 && indices.high < rows;
}

}  // namespace

IntegerValue Embedding::infer(IntegerInputs inputs) const {
  check_operands(inputs, 2);
  const IntegerValue& table = inputs[0];
  const IntegerValue& indices = inputs[1];
  check_codes(table, "the table");
  check(table.type.shape.rank() == 2 && table.type.elements() > 0,
        "the table must be [rows, width], both at least 1, got {}",
        to_string(table.type.shape));
  const int64_t rows = table.type.shape[0];
  check(is_within(indices, rows) || is_indices(indices),
        "the second operand must be indices, or s32 within 0..{}, got {}", rows - 1,
        indices.scales.empty()
            ? to_string(indices.type)
            : fmt::format("{} within {}..{}", indices.type, indices.low, indices.high));
  check(indices.type.shape.rank() < Shape::max_rank, "indices may have at most 7 axes, got {}",
        to_string(indices.type.shape));
  const auto extents = indices.type.shape.extents();
  std::vector<int64_t> shape(extents.begin(), extents.end());
  shape.push_back(table.type.shape[1]);
  IntegerValue y = table;
  y.type.shape = Shape(shape);
  return y;
}

void Embedding::update(const IntegerBinding& b, IntegerValue& y) const {
  y.scales[0] = b.in(0).scales[0];
  y.zero_point = b.in(0).zero_point;
  y.low = b.in(0).low;
  y.high = b.in(0).high;
}

IntegerKernel Embedding::optimized(const IntegerBinding& b) const {
  const int64_t bytes = b.in(0).type.shape[1] * size_of(b.out().type.dtype);
  const int64_t grain = std::max<int64_t>(1, copy_grain / bytes);
  const int64_t rows = b.in(0).type.shape[0];
  return {.run = [bytes, grain, table = b.operands[0], indices = b.operand<int32_t>(1),
                  y = b.result, n = b.in(1).type.elements(), threads = b.threads, rows,
                  known = is_within(b.in(1), rows)] {
    if (!known) check_indices({indices, static_cast<size_t>(n)}, rows);
    kernels::parallel_for(threads, n, 1, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        std::memcpy(y + i * bytes, table + indices[i] * bytes, static_cast<size_t>(bytes));
      }
    });
  }};
}

}  // namespace qtape::integer
