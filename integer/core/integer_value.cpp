#include "qtape/integer/core/integer_value.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "qtape/core/code_types.h"
#include "qtape/ops/core/op.h"

namespace qtape {
namespace {

struct Limits {
  int32_t low;
  int32_t high;
};

Limits limits_of(DType dtype) {
  switch (dtype) {
    case DType::S8:
      return {-128, 127};
    case DType::U8:
      return {0, 255};
    case DType::S16:
      return {-32768, 32767};
    case DType::U16:
      return {0, 65535};
    default:
      fail<GraphError>("codes are s8, u8, s16 or u16, got {}", to_string_view(dtype));
  }
}

}  // namespace

bool IntegerValue::is_codes() const { return is_code_dtype(type.dtype); }

int64_t IntegerValue::limit() const {
  return std::max(std::abs(low - zero_point), std::abs(high - zero_point));
}

IntegerValue codes_of(const CodeGrid& grid, const Shape& shape) {
  const auto [least, most] = limits_of(grid.dtype);
  const auto narrow = static_cast<float>(grid.scale);
  check(grid.scale > 0 && std::isnormal(narrow), "scale must be a positive normal f32, got {}",
        grid.scale);
  check(double{narrow} == grid.scale, "scale must be an f32, got {}; the nearest is {}",
        grid.scale, double{narrow});
  check(grid.scale < 0x1p111, "scale must be below 2^111, got {}", grid.scale);
  check(grid.low >= least && grid.low <= grid.high && grid.high <= most,
        "codes must be within {}..{} for {}, got {}..{}", least, most,
        to_string_view(grid.dtype), grid.low, grid.high);
  check(grid.zero_point >= least && grid.zero_point <= most,
        "zero point must be within {}..{}, got {}", least, most, grid.zero_point);
  return {{grid.dtype, shape}, {grid.scale}, grid.zero_point, grid.low, grid.high};
}

void set_grid(IntegerValue& value, const CodeGrid& grid) {
  value.scales[0] = grid.scale;
  value.zero_point = grid.zero_point;
  value.low = grid.low;
  value.high = grid.high;
}

IntegerValue with_zero_point(IntegerValue x) {
  x.low = std::min<int64_t>(x.low, x.zero_point);
  x.high = std::max<int64_t>(x.high, x.zero_point);
  return x;
}

bool is_indices(const IntegerValue& value) {
  return value.type.dtype == DType::S32 && value.low >= 0 && value.scales.size() == 1 &&
         value.scales[0] == 1;
}

void check_codes(const IntegerValue& value, std::string_view what) {
  check(value.is_codes(), "{} must be codes, got {}", what, to_string(value.type));
}

}  // namespace qtape
