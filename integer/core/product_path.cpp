#include "qtape/integer/core/product_path.h"

#include <fmt/format.h>

namespace qtape {

ProductPath exact_path(const Certificate& c, const IntegerValue& x, Int8Exactness int8) {
  const auto is_exact_in_int8 = [&] {
    switch (int8) {
      case Int8Exactness::Always:
        return true;
      case Int8Exactness::Pairs:
        return c.exact_in_pairs();
      case Int8Exactness::PairsAnd24Bits:
        return c.exact_in_pairs() && int8_accumulator_bound(c, x) <= Certificate::f32_limit;
      case Int8Exactness::Never:
        break;
    }
    return false;
  };
  if (c.part_bound <= Certificate::s32_limit && is_exact_in_int8()) return ProductPath::Int8;
  return c.exact_in_f32() ? ProductPath::F32 : ProductPath::Plain;
}

std::string explain_path(const Certificate& c, const IntegerValue& x, Int8Exactness int8) {
  switch (exact_path(c, x, int8)) {
    case ProductPath::Int8:
      if (int8 == Int8Exactness::Always) {
        return fmt::format("int8, added in 32 bits by {}", int8_isa());
      }
      return fmt::format("int8 on {}; 16-bit sums of pairs{} are proven to fit", int8_isa(),
                         int8 == Int8Exactness::Pairs ? "" : " and 24-bit accumulators");
    case ProductPath::F32:
      return fmt::format("f32 on codes, proven to fit 24 bits; int8 on {} would not be exact",
                         int8_isa());
    case ProductPath::Plain:
      break;
  }
  return fmt::format("plain loops; neither int8 on {} nor f32 would be exact", int8_isa());
}

}  // namespace qtape
