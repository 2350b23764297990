#include "qtape/core/types.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "qtape/core/error.h"

namespace qtape {

int64_t size_of(DType dtype) {
  static constexpr std::array<int64_t, 10> sizes = {4, 8, 2, 2, 4, 2, 2, 1, 1, 8};
  static_assert(sizes.size() == enum_names<DType>.size());
  return sizes[static_cast<size_t>(dtype)];
}

bool is_float(DType dtype) { return dtype <= DType::BF16; }

bool is_compute(DType dtype) { return dtype == DType::F32 || dtype == DType::F64; }

Shape::Shape(std::initializer_list<int64_t> extents)
    : Shape(std::span<const int64_t>(extents.begin(), extents.size())) {}

Shape::Shape(std::span<const int64_t> extents) {
  require<GraphError>(extents.size() <= max_rank, "rank {} is above the largest rank {}",
                      extents.size(), max_rank);
  int64_t elements = 1;
  for (int64_t extent : extents) {
    require<GraphError>(extent >= 0, "extent {} of shape [{}] is negative", extent,
                        fmt::join(extents, ", "));
    require<GraphError>(extent == 0 || elements <= max_elements / extent,
                        "shape [{}] has more than 2^48 elements", fmt::join(extents, ", "));
    elements *= std::max<int64_t>(extent, 1);
  }
  std::copy(extents.begin(), extents.end(), extents_.begin());
  rank_ = static_cast<int>(extents.size());
}

int64_t Shape::elements() const {
  int64_t product = 1;
  for (int64_t extent : extents()) product *= extent;
  return product;
}

Shape Shape::with(int axis, int64_t extent) const {
  require<GraphError>(axis >= -rank_ && axis < rank_, "axis {} is out of range for {}", axis,
                      to_string(*this));
  Shape result = *this;
  result.extents_[static_cast<size_t>(axis < 0 ? axis + rank_ : axis)] = extent;
  return Shape(result.extents());
}

bool Shape::operator==(const Shape& other) const {
  return std::ranges::equal(extents(), other.extents());
}

std::string to_string(const Shape& shape) {
  return fmt::format("[{}]", fmt::join(shape.extents(), ", "));
}

std::string to_string(const TensorType& type) {
  return fmt::format("{}{}", to_string_view(type.dtype), to_string(type.shape));
}

void Tensor::check_count(const TensorType& type, size_t values) {
  require<GraphError>(static_cast<int64_t>(values) == type.elements(),
                      "{} has {} elements, got {} values", type, type.elements(), values);
}

void Tensor::check_dtype(const TensorType& type, DType wanted) {
  check(type.dtype == wanted, "the tensor is {}, and its values are not {}", to_string(type),
        to_string_view(wanted));
}

AxisView axis_view(const Shape& shape, int axis) {
  AxisView view;
  for (int i = 0; i < shape.rank(); ++i) {
    (i < axis ? view.outer : i == axis ? view.channels : view.inner) *= shape[i];
  }
  return view;
}

}  // namespace qtape
