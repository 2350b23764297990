// Integers of any dtype, one at a time: what the plain loops of integer/reference read and
// write.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "qtape/core/requantization.h"
#include "qtape/integer/core/integer_binding.h"

namespace qtape::integer::reference {

/// Integers that a reference reads.
struct Integers {
  const std::byte* data = nullptr;
  DType dtype = DType::S8;

  int64_t operator[](int64_t i) const {
    switch (dtype) {
      case DType::U8:
        return reinterpret_cast<const uint8_t*>(data)[i];
      case DType::S16:
        return reinterpret_cast<const int16_t*>(data)[i];
      case DType::U16:
        return reinterpret_cast<const uint16_t*>(data)[i];
      case DType::S32:
        return reinterpret_cast<const int32_t*>(data)[i];
      case DType::S64:
        return reinterpret_cast<const int64_t*>(data)[i];
      default:
        return reinterpret_cast<const int8_t*>(data)[i];
    }
  }
};

/// Integers that a reference writes.
struct Result {
  std::byte* data = nullptr;
  DType dtype = DType::S8;

  void set(int64_t i, int64_t value) const {
    switch (dtype) {
      case DType::U8:
        reinterpret_cast<uint8_t*>(data)[i] = static_cast<uint8_t>(value);
        return;
      case DType::S16:
        reinterpret_cast<int16_t*>(data)[i] = static_cast<int16_t>(value);
        return;
      case DType::U16:
        reinterpret_cast<uint16_t*>(data)[i] = static_cast<uint16_t>(value);
        return;
      case DType::S32:
        reinterpret_cast<int32_t*>(data)[i] = static_cast<int32_t>(value);
        return;
      case DType::S64:
        reinterpret_cast<int64_t*>(data)[i] = value;
        return;
      default:
        reinterpret_cast<int8_t*>(data)[i] = static_cast<int8_t>(value);
    }
  }
};

/// Operand `k` of a node: its integers, and its value, whose numbers may change between runs.
struct Operand : Integers {
  const IntegerValue* value = nullptr;

  const Shape& shape() const { return value->type.shape; }
  /// Code minus its zero point.
  int64_t difference(int64_t i) const { return (*this)[i] - value->zero_point; }
};

/// Integers of one run, in memory that is allocated once.
using Buffer = std::shared_ptr<std::vector<int64_t>>;
inline Buffer buffer(int64_t n) {
  return std::make_shared<std::vector<int64_t>>(static_cast<size_t>(n));
}

inline Operand operand(const IntegerBinding& b, size_t k) {
  return {{b.operands[k], b.in(k).type.dtype}, b.inputs[k]};
}
inline Result result(const IntegerBinding& b) { return {b.result, b.out().type.dtype}; }

}  // namespace qtape::integer::reference
