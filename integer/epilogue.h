// What is done with the products of a tile while they are in cache.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <utility>

#include "qtape/integer/integer_op.h"

namespace qtape {

/// Takes rows of products [rows, n], which lack offsets, from row `row` of the result on: `s32`
/// where codes have 8 bits and accumulators fit, else `s64`.
struct Epilogue {
  /// Takes over the offsets, one per channel, and whatever else changed.
  std::function<Fault(std::span<const int64_t> offsets)> load;
  std::function<void(int64_t row, int64_t rows, const int32_t* products)> s32;
  std::function<void(int64_t row, int64_t rows, const int64_t* products)> s64;
};

/// An op of integer programs that can hand its products on while they are in cache.
template <class X>
concept TakesEpilogue = requires(const X& op, const IntegerBinding& b, Epilogue next) {
  op.kernel(b, std::move(next));
};
/// One that can take them.
template <class X>
concept HasEpilogue = requires(const X& op, const IntegerBinding& b) {
  op.epilogue(b);
};

}  // namespace qtape
