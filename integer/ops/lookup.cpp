#include "qtape/integer/ops/lookup.h"

#include <fmt/format.h>

#include <limits>

#include "qtape/integer/core/integer_binding.h"
#include "qtape/kernels/simd/threads.h"

namespace qtape::integer {

using namespace kernels;
namespace {

template <class X, class Code>
IntegerKernel bind(const Lookup& op, const IntegerBinding& b) {
  constexpr int32_t least = std::numeric_limits<X>::lowest();
  const auto* table = reinterpret_cast<const Code*>(op.table.data.data());
  return {.run = [table, x = b.operand<X>(0), y = b.y<Code>(), n = b.out().type.elements(),
                  threads = b.threads] {
    parallel_for(threads, n, 64, pointwise_grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) y[i] = table[int32_t{x[i]} - least];
    });
  }};
}

/// Returns the kernel with a table for each index of the last axis.
template <class X, class Code>
IntegerKernel bind_rows(const Lookup& op, const IntegerBinding& b) {
  constexpr int64_t least = std::numeric_limits<X>::lowest();
  const auto* tables = reinterpret_cast<const Code*>(op.table.data.data());
  return {.run = [tables, x = b.operand<X>(0), y = b.y<Code>(), n = b.out().type.elements(),
                  rows = op.table.type.shape[0], entries = op.table.type.shape[1],
                  threads = b.threads] {
    parallel_for(threads, n, 64, pointwise_grain, [&](int64_t begin, int64_t end) {
      int64_t row = begin % rows;
      for (int64_t i = begin; i < end; ++i) {
        y[i] = tables[row * entries + int64_t{x[i]} - least];
        row = row + 1 == rows ? 0 : row + 1;
      }
    });
  }};
}

}  // namespace

IntegerValue Lookup::infer(IntegerInputs inputs) const {
  check_operands(inputs, 1);
  check_codes(inputs[0], "x");
  const IntegerValue y = codes_of(grid, inputs[0].type.shape);
  const Shape& x = inputs[0].type.shape;
  const int64_t entries = int64_t{1} << (8 * size_of(inputs[0].type.dtype));
  const bool rows = table.type.shape.rank() == 2 && x.rank() >= 1;
  const TensorType expected{grid.dtype, rows ? Shape{x[-1], entries} : Shape{entries}};
  check(table.type == expected && std::ssize(table.data) == expected.bytes(),
        "the table of {} must be {}, got {}", to_string_view(inputs[0].type.dtype),
        to_string(expected), to_string(table.type));
  dispatch_codes(grid.dtype, [&]<class Code>() {
    const auto* codes = reinterpret_cast<const Code*>(table.data.data());
    for (int64_t i = 0; i < expected.elements(); ++i) {
      check(codes[i] >= grid.low && codes[i] <= grid.high,
            "entry {} of the table must be within {}..{}, got {}", i, grid.low, grid.high,
            int32_t{codes[i]});
    }
  });
  return y;
}

void Lookup::update(const IntegerBinding&, IntegerValue& y) const { set_grid(y, grid); }

IntegerKernel Lookup::optimized(const IntegerBinding& b) const {
  return dispatch_codes(b.in(0).type.dtype, [&]<class X>() {
    return dispatch_codes(grid.dtype, [&]<class Code>() {
      return table.type.shape.rank() == 2 ? bind_rows<X, Code>(*this, b)
                                          : bind<X, Code>(*this, b);
    });
  });
}

}  // namespace qtape::integer
