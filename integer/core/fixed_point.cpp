#include "qtape/integer/core/fixed_point.h"

#include <array>

namespace qtape {

int64_t fixed_exp(int64_t v, int integer_bits) {
  if (v == 0) return fixed_one;
  const int64_t quarter = int64_t{1} << (29 - integer_bits);
  constexpr int64_t exp_of_eighth = 1895147668;  // e^(-1/8)
  constexpr int64_t third = 715827883;
  // e^(-1/4), e^(-1/2), .. e^(-16)
  constexpr std::array<int64_t, 7> powers = {1672461947, 1302514674, 790015084, 290630308,
                                             39332535,   720401,     242};
  const int64_t part = (v & (quarter - 1)) - quarter;
  const int64_t quarters = (part - v) / quarter;
  // The polynomial of degree 4 around -1/8.
  const int64_t x = part * (int64_t{1} << integer_bits) + (int64_t{1} << 28);
  const int64_t x2 = high_product(x, x);
  const int64_t x3 = high_product(x2, x);
  const int64_t x4 = high_product(x2, x2);
  const int64_t sixths = high_product(nearest_shift(x4, 2) + x3, third);
  const int64_t above = x + nearest_shift(sixths + x2, 1);
  int64_t y = exp_of_eighth + high_product(exp_of_eighth, above);
  for (size_t bit = 0; bit < powers.size(); ++bit) {
    if ((quarters >> bit & 1) != 0) y = high_product(y, powers[bit]);
  }
  return y;
}

int64_t fixed_reciprocal(int64_t h) {
  int64_t x = reciprocal_offset + high_product(h, reciprocal_slope);
  for (int step = 0; step < 3; ++step) {
    x += 4 * high_product(x, (int64_t{1} << 29) - high_product(h, x));
  }
  return x;
}

}  // namespace qtape
