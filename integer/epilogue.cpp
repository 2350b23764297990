#include <algorithm>

#include "qtape/integer/linear_kernel.h"
#include "qtape/kernels/quantize/requantize_kernels.h"

namespace qtape {

using namespace kernels;
namespace {

/// What follows products of n channels: offsets, and multipliers where there are any.
struct Table {
  RequantizeTable narrow;
  std::vector<int64_t> offsets;

  Table(const integer::Linear& op, const IntegerBinding& linear,
        std::span<const Multiplier> multipliers)
      : offsets(op.offsets(linear.inputs[0])) {
    if (linear.output.type.dtype != DType::S32) {
      narrow = RequantizeTable(multipliers, {}, op.shape[0]);
      return;
    }
    // Certified to fit, as every sum is.
    const std::vector<int32_t> bias(offsets.begin(), offsets.end());
    narrow = RequantizeTable(multipliers, bias, op.shape[0]);
  }
};

/// Multipliers of accumulators that are not requantized: their scales.
std::vector<Multiplier> scales_only(const IntegerValue& accumulators) {
  std::vector<Multiplier> all;
  for (double scale : accumulators.scales)
    all.push_back({.accumulator_scale = static_cast<float>(scale)});
  return all;
}

template <class Acc>
void store(const Table& table, const auto* products, Acc* y, int64_t rows) {
  const auto n = static_cast<int64_t>(table.offsets.size());
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t c = 0; c < n; ++c) {
      y[row * n + c] =
          static_cast<Acc>(products[row * n + c] + table.offsets[static_cast<size_t>(c)]);
    }
  }
}

}  // namespace

Epilogue epilogue(const integer::Linear& op, const IntegerBinding& linear) {
  return dispatch_accumulators(linear.output.type.dtype, [&]<class Acc>() -> Epilogue {
    const Table table(op, linear, scales_only(linear.output));
    const auto write = [table, n = op.shape[0], y = linear.y<Acc>()](int64_t row, int64_t rows,
                                                                     const auto* products) {
      store(table, products, y + row * n, rows);
    };
    return {write, write};
  });
}

Epilogue epilogue(const integer::Linear& op, const IntegerBinding& linear,
                  const integer::Requantize& next, const IntegerBinding& b) {
  return dispatch_codes(next.grid.dtype, [&]<class Code>() -> Epilogue {
    const Table table(op, linear, integer::multipliers_of(linear.output, next.grid.scale));
    const RequantizeCodes codes{next.grid.zero_point, next.grid.low, next.grid.high};
    Code* y = b.y<Code>();
    const int64_t n = op.shape[0];
    return {[table, codes, n, y, loop = requantize_loop<Code>(b.requantization)](
                int64_t row, int64_t rows, const int32_t* products) {
              loop(products, y + row * n, rows, &table.narrow, &codes);
            },
            [table, codes, n, y, requantization = b.requantization,
             accumulator = linear.output.accumulator](int64_t row, int64_t rows,
                                                      const int64_t* products) {
              requantize_s64(products, table.offsets.data(), y + row * n, rows, table.narrow,
                             codes, requantization, accumulator);
            }};
  });
}

Epilogue epilogue(const integer::Linear& op, const IntegerBinding& linear,
                  const integer::Dequantize& next, const IntegerBinding& b) {
  const Table table(op, linear, scales_only(linear.output));
  const auto limit = [](float* y, int64_t n, const integer::Dequantize& by) {
    for (int64_t i = 0; by.low && i < n; ++i)
      y[i] = std::max(y[i], static_cast<float>(*by.low));
    for (int64_t i = 0; by.high && i < n; ++i) {
      y[i] = std::min(y[i], static_cast<float>(*by.high));
    }
  };
  const int64_t n = op.shape[0];
  float* y = b.y<float>();
  return {[table, n, y, next, limit, loop = dequantize_accumulators_loop()](
              int64_t row, int64_t rows, const int32_t* products) {
            loop(products, y + row * n, rows, &table.narrow);
            limit(y + row * n, rows * n, next);
          },
          [table, n, y, next, limit](int64_t row, int64_t rows, const int64_t* products) {
            float* to = y + row * n;
            for (int64_t i = 0; i < rows * n; ++i) {
              const auto c = static_cast<size_t>(i % n);
              to[i] = static_cast<float>(products[i] + table.offsets[c]) *
                      table.narrow.accumulator_scale[c];
            }
            limit(to, rows * n, next);
          }};
}

}  // namespace qtape
