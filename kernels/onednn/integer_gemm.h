// Products of 8-bit codes, prepared once and executed many times.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "qtape/core/types.h"

namespace qtape::kernels {

/// A product bound to its operands by Int8Product::bind. May outlive its Int8Product. Copies
/// share buffers, so concurrent runs in two threads require two calls of bind.
class BoundInt8Product {
 public:
  /// Creates a product that does nothing.
  BoundInt8Product() = default;

  /// Computes acc in the calling thread, which must hold a ComputingThread (threads.h). Returns
  /// false if oneDNN fails (out of memory); acc is then undefined.
  bool operator()() const;

 private:
  friend class Int8Product;
  struct State;
  explicit BoundInt8Product(std::shared_ptr<const State> state) : state_(std::move(state)) {}

  std::shared_ptr<const State> state_;
};

/// Layout of the weights, constant or read in each run.
enum class Int8Weights : uint8_t {
  Constant,  ///< [n, k], packed once
  Rows,      ///< [n, k], read in each run
  Columns    ///< [k, n], read in each run
};

/// acc [rows, n] = x [rows, k] w^T, all dense row-major; x is u8 or s8, w s8, acc s32.
/// Accumulators that fit s32 are exact under the condition of int8_exactness(), regardless of
/// the order of their terms. s8 codes are multiplied as u8 after adding 128; the condition
/// applies to the shifted codes.
class Int8Product {
 public:
  /// Constant `w` is read by bind and must not change before the last call of bind. Other
  /// weights stay at `w` and are loaded by `load`. Throws GraphError for a negative extent or
  /// an `x` other than u8 or s8.
  Int8Product(int64_t n, int64_t k, DType x, const int8_t* w,
              Int8Weights weights = Int8Weights::Constant);
  ~Int8Product();
  Int8Product(Int8Product&&) noexcept;
  Int8Product& operator=(Int8Product&&) noexcept;

  /// Prepares the product for `rows` rows at `x` and `acc`. Weights are packed in oneDNN's
  /// layout, once for all bound products with the same layout. Must not be called by two
  /// threads concurrently. Throws GraphError if oneDNN rejects the product.
  BoundInt8Product bind(int64_t rows, const void* x, int32_t* acc);
  /// Loads changed weights for all bound products. Must not be called during a run.
  void load();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace qtape::kernels
