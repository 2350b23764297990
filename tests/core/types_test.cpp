#include "qtape/core/types.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "qtape/core/error.h"
#include "qtape/tests/support/errors.h"

using namespace qtape;
using test::error_text;

static_assert(Element<float> && Element<int64_t> && Element<Half>);
// These would become f32 if dtype_of had a default.
static_assert(!Element<char> && !Element<bool> && !Element<unsigned> && !Element<std::byte>);
static_assert(!Element<const float> && !Element<long double>);
static_assert(dtype_of<float> == DType::F32 && dtype_of<BHalf> == DType::BF16);

TEST_CASE("shape: an extent is replaced, and other axes are refused") {
  const Shape shape = {2, 3};
  CHECK(shape.with(-1, 7) == Shape{2, 7});
  CHECK(shape.with(0, 5) == Shape{5, 3});
  for (const int axis : {2, -3, 40, 1000000}) {
    CHECK(test::error_text<GraphError>([&] { (void)shape.with(axis, 1); }) ==
          fmt::format("axis {} is out of range for [2, 3]", axis));
  }
}

TEST_CASE("types: a tensor is made of as many values as its shape has elements") {
  const std::vector<float> six(6);
  CHECK(Tensor::of<float>({2, 3}, six).data.size() == 24);
  CHECK(Tensor::of<float>({2, 0}, {}).data.empty());
  CHECK(Tensor::of<int8_t>({}, std::vector<int8_t>{7}).data == std::vector{std::byte{7}});
  const auto error = [&](Shape shape, std::span<const float> values) {
    return error_text<GraphError>([&] { (void)Tensor::of<float>(shape, values); });
  };
  CHECK(error({2, 4}, six) == "f32[2, 4] has 8 elements, got 6 values");
  CHECK(error({5}, six) == "f32[5] has 5 elements, got 6 values");
  CHECK(error({}, {}) == "f32[] has 1 elements, got 0 values");
}

template <class X>
concept HasNumbers = requires(X tensor) {
  std::forward<X>(tensor).template values<float>();
};
// The values of a temporary tensor cannot be read.
static_assert(HasNumbers<const Tensor&> && !HasNumbers<Tensor>);

TEST_CASE("types: numbers of a tensor are read as what they are") {
  const std::vector<float> six = {1, 2, 3, 4, 5, 6};
  const Tensor tensor = Tensor::of<float>({2, 3}, six);
  CHECK(std::ranges::equal(tensor.values<float>(), six));
  CHECK(tensor.values<float>().data() == reinterpret_cast<const float*>(tensor.data.data()));
  const Tensor none = Tensor::of<int64_t>({0}, {});
  CHECK(none.values<int64_t>().empty());
  CHECK(error_text<GraphError>([&] { (void)tensor.values<double>(); }) ==
        "the tensor is f32[2, 3], and its values are not f64");
}
