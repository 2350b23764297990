#include "qtape/ops/families/border.h"

#include "qtape/core/error.h"

namespace qtape {
namespace {

void check_numbers(std::string_view name, const Shape& x, const Shape& numbers) {
  check(numbers.rank() == x.rank(),
        "{} must have {} numbers, one for each axis of x {}, got {}", name, x.rank(),
        to_string(x), to_string(numbers));
}

}  // namespace

Shape padded_shape(const Shape& x, const Shape& begin, const Shape& end) {
  check_numbers("begin", x, begin);
  check_numbers("end", x, end);
  Shape y = x;
  for (int i = 0; i < x.rank(); ++i) y = y.with(i, begin[i] + x[i] + end[i]);
  return y;
}

}  // namespace qtape
