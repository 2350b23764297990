// Epilogues: processing of the products of a tile while they are in cache.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <utility>

#include "qtape/integer/core/integer_op.h"

namespace qtape {

/// Receives rows of products [rows, n], without offsets, starting at row `row` of the result.
/// `s32` is called if codes have 8 bits and the accumulators fit in 32 bits, otherwise `s64`.
struct Epilogue {
  /// Loads the offsets, one per channel, and all other numbers that may have changed.
  std::function<Fault(std::span<const int64_t> offsets)> load;
  std::function<void(int64_t row, int64_t rows, const int32_t* products)> s32;
  std::function<void(int64_t row, int64_t rows, const int64_t* products)> s64;
};

/// An op of integer programs that can pass its products to an epilogue while they are in cache.
template <class X>
concept TakesEpilogue = requires(const X& op, const IntegerBinding& b, Epilogue next) {
  op.optimized(b, std::move(next));
};
/// An op of integer programs that provides an epilogue.
template <class X>
concept HasEpilogue = requires(const X& op, const IntegerBinding& b) {
  op.epilogue(b);
};

}  // namespace qtape
