// Products of 8-bit codes, prepared once and run many times.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

#include "qtape/ops/core/types.h"

namespace qtape {

/// Whether oneDNN's int8 products on this processor, as capped by DNNL_MAX_CPU_ISA or
/// ONEDNN_MAX_CPU_ISA, sum in s32 throughout: AVX-512 VNNI and later. Anything else counts as
/// no, AVX2 with VNNI too, which is untested. AVX2 and AVX-512 without VNNI first sum pairs of
/// products in 16 bits, with saturation: exact only while 255 (|w[2i]| + |w[2i + 1]|) < 2^15
/// for any two weights of a row, so for |w| <= 64.
bool has_exact_int8();

/// The instruction set of oneDNN's int8 products, for reports: "avx512_core_vnni". "unknown"
/// for one without a name here.
std::string_view int8_isa();

/// A product bound to its operands by Int8Product::bind. Copies share buffers: one that runs in
/// two threads at a time must have been bound twice. Outlives its product.
class Int8Run {
 public:
  /// Does nothing.
  Int8Run() = default;

  /// Computes acc in the calling thread, within a SerialLibraries (thread_count.h) of the
  /// caller. False where oneDNN fails (out of memory); acc is then undefined.
  bool operator()() const;

 private:
  friend class Int8Product;
  struct State;
  explicit Int8Run(std::shared_ptr<const State> state) : state_(std::move(state)) {}

  std::shared_ptr<const State> state_;
};

/// acc [rows, n] = x [rows, k] w^T, all dense row-major; x u8 or s8, w s8 [n, k], acc s32. Sums
/// are exact where has_exact_int8() and they fit s32, whatever the order of their terms.
class Int8Product {
 public:
  /// `w` is read by bind and must stay as it is until the last one. Throws GraphError for a
  /// negative extent or an `x` other than u8 or s8.
  Int8Product(int64_t n, int64_t k, DType x, const int8_t* w);
  ~Int8Product();
  Int8Product(Int8Product&&) noexcept;
  Int8Product& operator=(Int8Product&&) noexcept;

  /// Prepares the product for `rows` rows at `x` and `acc`. Weights are packed as oneDNN wants
  /// them, once for all runs that agree on that. Not to be called by two threads at a time.
  /// Throws GraphError when oneDNN refuses.
  Int8Run bind(int64_t rows, const void* x, int32_t* acc);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace qtape
