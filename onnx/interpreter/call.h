// A node of an ONNX graph with its operands, and what operators share to compute it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "qtape/onnx/interpreter/interpreter_ops.h"

/// Operators of the interpreter of ONNX models.
namespace qtape::interpreter {

using Extents = std::vector<int64_t>;

/// A node with its operands.
struct Call {
  const OnnxNode& node;
  const OnnxOperands& operands;

  bool has(size_t k) const { return k < operands.size() && operands[k] != nullptr; }
  const OnnxArray& in(size_t k) const {
    require<FormatError>(has(k), "input {} is missing", k);
    return *operands[k];
  }
  template <class T>
  const std::vector<T>& of(size_t k) const {
    const auto* found = std::get_if<std::vector<T>>(&in(k).data);
    require<FormatError>(found != nullptr, "input {} has elements of another type", k);
    return *found;
  }
  /// Returns the only element of input `k`, or `fallback` if it is omitted.
  template <class T>
  T scalar(size_t k, T fallback) const {
    if (!has(k)) return fallback;
    require<FormatError>(of<T>(k).size() == 1, "input {} must be one number", k);
    return of<T>(k)[0];
  }
  /// Returns integers that are an attribute in old opsets and an input in later ones.
  std::optional<Extents> numbers(size_t k, const char* name) const {
    if (has(k)) return of<int64_t>(k);
    return node.integers(name);
  }
};

inline int64_t axis_of(int64_t axis, size_t rank) {
  const auto r = static_cast<int64_t>(rank);
  require<FormatError>(axis >= -r && axis < r, "axis {} is out of range for rank {}", axis, r);
  return axis < 0 ? axis + r : axis;
}

inline Extents strides_of(const Extents& shape) {
  Extents strides(shape.size(), 1);
  for (size_t a = shape.size(); a > 1; --a) strides[a - 2] = strides[a - 1] * shape[a - 1];
  return strides;
}

/// Calls `body(index)` for all indices of a tensor, in row-major order.
template <class Body>
void for_each_index(const Extents& shape, const Body& body) {
  if (onnx_elements(shape) == 0) return;
  Extents index(shape.size(), 0);
  while (true) {
    body(index);
    size_t a = shape.size();
    while (a > 0 && ++index[a - 1] == shape[a - 1]) index[--a] = 0;
    if (a == 0) return;
  }
}

/// Returns y of `shape`, whose element at each index is the element of x at `place(index)`.
template <class Place>
OnnxArray moved(const OnnxArray& x, const Extents& shape, const Place& place) {
  return std::visit(
      [&](const auto& from) {
        std::decay_t<decltype(from)> to;
        to.reserve(static_cast<size_t>(onnx_elements(shape)));
        for_each_index(shape, [&](const Extents& index) {
          to.push_back(from[static_cast<size_t>(place(index))]);
        });
        return OnnxArray{shape, std::move(to)};
      },
      x.data);
}

template <class To>
std::vector<To> converted(const auto& from) {
  std::vector<To> to;
  for (const auto each : from) to.push_back(static_cast<To>(each));
  return to;
}

/// Returns the broadcast shape of two operands, as in NumPy.
inline Extents broadcast(const Extents& a, const Extents& b) {
  Extents shape(std::max(a.size(), b.size()));
  for (size_t i = 0; i < shape.size(); ++i) {
    const int64_t left = i < a.size() ? a[a.size() - 1 - i] : 1;
    const int64_t right = i < b.size() ? b[b.size() - 1 - i] : 1;
    require<FormatError>(left == right || left == 1 || right == 1,
                         "extents {} and {} do not broadcast", left, right);
    shape[shape.size() - 1 - i] = left == 1 ? right : left;
  }
  return shape;
}

/// Returns the position in an operand of `shape` for an index of the broadcast shape.
inline int64_t broadcast_place(const Extents& shape, const Extents& index) {
  int64_t at = 0;
  for (size_t a = 0; a < shape.size(); ++a) {
    const int64_t i = index[index.size() - shape.size() + a];
    at = at * shape[a] + (shape[a] == 1 ? 0 : i);
  }
  return at;
}

/// Rejects 16-bit integers, for operators of which no version supports them.
inline void expect_no_16_bits(const Call& c) {
  std::visit(
      []<class T>(const std::vector<T>&) {
        require<FormatError>(sizeof(T) != 2, "does not support elements of 16 bits");
      },
      c.in(0).data);
}

/// Returns codes minus their zero point, for s8 and u8.
inline std::vector<int32_t> differences(const Call& c, size_t codes, size_t zero) {
  const auto less = [&]<class T>(const std::vector<T>& from) {
    const int32_t z = c.scalar<T>(zero, 0);
    std::vector<int32_t> to;
    for (T each : from) to.push_back(each - z);
    return to;
  };
  if (std::holds_alternative<std::vector<int8_t>>(c.in(codes).data)) {
    return less(c.of<int8_t>(codes));
  }
  return less(c.of<uint8_t>(codes));
}

/// Type in which products of T are added: 64-bit integers, whose sum must fit 32 bits.
template <class T>
using Sum = std::conditional_t<std::is_integral_v<T>, int64_t, T>;

/// Returns the sum of both operands, broadcast.
OnnxArray add(const Call& c);

/// The type of a result that is like operand 0.
inline OnnxType same_type(const OnnxTypes& c) { return c.in(0); }

/// An operator by its ONNX name.
struct Operator {
  std::string_view name;
  OnnxArray (*compute)(const Call&);
  OnnxType (*type)(const OnnxTypes&);
};

// The operators of each file.
std::span<const Operator> pointwise_operators();
std::span<const Operator> product_operators();
std::span<const Operator> window_operators();
std::span<const Operator> structure_operators();

}  // namespace qtape::interpreter
