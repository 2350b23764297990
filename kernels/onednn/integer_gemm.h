// Products of 8-bit codes, prepared once and run many times.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "qtape/core/types.h"

namespace qtape::kernels {

/// A product bound to its operands by Int8Product::bind. Copies share buffers: one that runs in
/// two threads at a time must have been bound twice. Outlives its product.
class BoundInt8Product {
 public:
  /// Does nothing.
  BoundInt8Product() = default;

  /// Computes acc in the calling thread, within a SerialLibraries (thread_count.h) of the
  /// caller. False where oneDNN fails (out of memory); acc is then undefined.
  bool operator()() const;

 private:
  friend class Int8Product;
  struct State;
  explicit BoundInt8Product(std::shared_ptr<const State> state) : state_(std::move(state)) {}

  std::shared_ptr<const State> state_;
};

/// How weights lie, and whether they change between runs.
enum class Int8Weights : uint8_t {
  Constant,  ///< [n, k], packed once
  Rows,      ///< [n, k], read in each run
  Columns    ///< [k, n], read in each run
};

/// acc [rows, n] = x [rows, k] w^T, all dense row-major; x u8 or s8, w s8, acc s32.
/// Accumulators are exact where they fit s32 and int8_exactness() says so, whatever the order
/// of their terms. Codes in s8 are multiplied as u8, 128 added, and this is what pairs and 24
/// bits are about.
class Int8Product {
 public:
  /// Constant `w` is read by bind and must stay as it is until the last one; other weights stay
  /// where they are, and `load` takes them over. Throws GraphError for a negative extent or an
  /// `x` other than u8 or s8.
  Int8Product(int64_t n, int64_t k, DType x, const int8_t* w,
              Int8Weights weights = Int8Weights::Constant);
  ~Int8Product();
  Int8Product(Int8Product&&) noexcept;
  Int8Product& operator=(Int8Product&&) noexcept;

  /// Prepares the product for `rows` rows at `x` and `acc`. Weights are packed as oneDNN wants
  /// them, once for all runs that agree on that. Not to be called by two threads at a time.
  /// Throws GraphError when oneDNN refuses.
  BoundInt8Product bind(int64_t rows, const void* x, int32_t* acc);
  /// Takes over weights that changed, for all that was bound. Not during a run.
  void load();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace qtape::kernels
