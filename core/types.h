// Element types, shapes and tensor types.
#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "qtape/core/enum_names.h"
#include "qtape/core/error.h"

namespace qtape {

/// Element type. Text spells it in lower case (`f32`, `u8`). s64 is the type of accumulators in
/// integer programs; no graph op computes in it.
enum class DType : uint8_t { F32, F64, F16, BF16, S32, S16, U16, S8, U8, S64 };

template <>
inline constexpr auto enum_names<DType> = std::array<std::string_view, 10>{
    "f32", "f64", "f16", "bf16", "s32", "s16", "u16", "s8", "u8", "s64"};

/// IEEE binary16, stored as its bits.
struct Half {
  uint16_t bits = 0;
  bool operator==(const Half&) const = default;
};

/// bfloat16, stored as its bits: the upper half of an f32.
struct BHalf {
  uint16_t bits = 0;
  bool operator==(const BHalf&) const = default;
};

/// Size of one element in bytes.
int64_t size_of(DType dtype);
/// True for f32, f64, f16 and bf16.
bool is_float(DType dtype);
/// True for f32 and f64, the dtypes in which arithmetic ops compute.
bool is_compute(DType dtype);

/// Dtype of tensors with elements of type T; nullptr if there is none.
template <class T>
inline constexpr auto dtype_of = nullptr;
template <>
inline constexpr auto dtype_of<float> = DType::F32;
template <>
inline constexpr auto dtype_of<double> = DType::F64;
template <>
inline constexpr auto dtype_of<Half> = DType::F16;
template <>
inline constexpr auto dtype_of<BHalf> = DType::BF16;
template <>
inline constexpr auto dtype_of<int32_t> = DType::S32;
template <>
inline constexpr auto dtype_of<int64_t> = DType::S64;
template <>
inline constexpr auto dtype_of<int16_t> = DType::S16;
template <>
inline constexpr auto dtype_of<uint16_t> = DType::U16;
template <>
inline constexpr auto dtype_of<int8_t> = DType::S8;
template <>
inline constexpr auto dtype_of<uint8_t> = DType::U8;

/// An element type of tensors: exactly the types above, which excludes `char` and `bool`.
template <class T>
concept Element = std::is_same_v<decltype(dtype_of<T>), const DType>;

/// Extents of a dense row-major tensor, outermost first. Does not allocate. Rank 0 is a scalar.
/// Extents may be 0.
class Shape {
 public:
  static constexpr int max_rank = 8;
  /// Maximum number of elements of a tensor; keeps every byte offset well within int64_t.
  static constexpr int64_t max_elements = int64_t{1} << 48;

  Shape() = default;
  /// Throws GraphError if the rank exceeds `max_rank`, an extent is negative or the number of
  /// elements exceeds `max_elements`.
  Shape(std::initializer_list<int64_t> extents);
  explicit Shape(std::span<const int64_t> extents);

  int rank() const { return rank_; }
  /// Extent of `axis`; negative axes count from the back. Requires -rank <= axis < rank.
  int64_t operator[](int axis) const {
    return extents_[static_cast<size_t>(axis < 0 ? axis + rank_ : axis)];
  }
  /// Product of the extents; 1 for a scalar.
  int64_t elements() const;
  std::span<const int64_t> extents() const {
    return {extents_.data(), static_cast<size_t>(rank_)};
  }
  /// This shape with the extent of `axis` replaced. Throws GraphError unless -rank <= axis <
  /// rank, and for extents that a shape cannot have.
  Shape with(int axis, int64_t extent) const;
  /// This shape without its first axis; for a batch, the shape of one sample. Requires rank
  /// >= 1.
  Shape without_first() const {
    check(rank_ >= 1, "a scalar has no first extent");
    return Shape(extents().subspan(1));
  }

  bool operator==(const Shape& other) const;

 private:
  std::array<int64_t, max_rank> extents_{};
  int rank_ = 0;
};

/// Element type and shape. Formatted as `f32[8, 4]`.
struct TensorType {
  DType dtype = DType::F32;
  Shape shape = {};

  int64_t elements() const { return shape.elements(); }
  int64_t bytes() const { return elements() * size_of(dtype); }
  bool operator==(const TensorType&) const = default;
};

/// Formats a shape as `[8, 4]`.
std::string to_string(const Shape& shape);
/// Formats a type as `f32[8, 4]`.
std::string to_string(const TensorType& type);

/// A tensor in host memory: type and dense bytes in native order. The representation of
/// tensors in constants; files hold the bytes in little-endian order (core/byte_order.h).
struct Tensor {
  TensorType type = {};
  std::vector<std::byte> data = {};

  /// Creates a tensor from `values` in row-major order. Throws GraphError unless their number
  /// equals the number of elements of `shape`.
  template <Element T>
  static Tensor of(Shape shape, std::span<const T> values) {
    const TensorType type{dtype_of<T>, shape};
    check_count(type, values.size());
    const auto bytes = std::as_bytes(values);
    return {type, {bytes.begin(), bytes.end()}};
  }
  /// Returns the elements in row-major order; the span is valid as long as the tensor. Throws
  /// GraphError if T is not the type of the elements.
  template <Element T>
  std::span<const T> values() const& {
    check_dtype(type, dtype_of<T>);
    return {reinterpret_cast<const T*>(data.data()), data.size() / sizeof(T)};
  }
  template <Element T>
  void values() const&& = delete;  // the span would outlive the tensor
  bool operator==(const Tensor&) const = default;

 private:
  static void check_count(const TensorType& type, size_t values);
  static void check_dtype(const TensorType& type, DType wanted);
};

/// Outer, middle and inner extents of a shape relative to an axis: element (o, c, i) is at
/// index (o * channels + c) * inner + i.
struct AxisView {
  int64_t outer = 1;
  int64_t channels = 1;
  int64_t inner = 1;
};
/// Splits `shape` at `axis`. Requires 0 <= axis < rank.
AxisView axis_view(const Shape& shape, int axis);

/// Converts `axis` to a non-negative index. Throws GraphError unless -rank <= axis < rank.
inline int resolve_axis(int axis, const Shape& shape) {
  check(axis >= -shape.rank() && axis < shape.rank(), "axis {} is out of range for rank {}",
        axis, shape.rank());
  return axis < 0 ? axis + shape.rank() : axis;
}

/// Calls `body.template operator()<T>()` with double for f64, otherwise float.
template <class Body>
auto dispatch_compute(DType dtype, const Body& body) {
  return dtype == DType::F64 ? body.template operator()<double>()
                             : body.template operator()<float>();
}

}  // namespace qtape

/// @cond
template <>
struct fmt::formatter<qtape::TensorType> {
  constexpr auto parse(fmt::format_parse_context& context) { return context.begin(); }
  template <class Context>
  auto format(const qtape::TensorType& type, Context& context) const {
    return std::ranges::copy(qtape::to_string(type), context.out()).out;
  }
};
/// @endcond
