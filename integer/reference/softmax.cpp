// Reference of the softmax of codes.
#include "qtape/integer/ops/softmax.h"

#include <algorithm>
#include <cmath>

#include "qtape/integer/reference/integers.h"

namespace qtape::integer {

using namespace reference;
namespace {

constexpr int64_t two_31 = int64_t{1} << 31;

/// floor(a / b) for b > 0.
int64_t floored(int64_t a, int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }

/// a b of which one is in Q0.31: halves upwards.
int64_t times(int64_t a, int64_t b) { return floored(a * b + two_31 / 2, two_31); }

/// v / by of an even `by`: halves away from 0.
int64_t divided(int64_t v, int64_t by) { return (v < 0 ? v - by / 2 : v + by / 2) / by; }

/// Exponential of -u / 2^26, in Q0.31.
int64_t decay(int64_t u) {
  if (u == 0) return two_31 - 1;
  const int64_t quarter = int64_t{1} << 24;
  // u = whole quarters and the part above them, from 1 to a quarter.
  const int64_t whole = (u - 1) / quarter;
  const int64_t part = u - whole * quarter;
  const int64_t x = two_31 / 8 - part * 32;
  const int64_t square = times(x, x);
  const int64_t cube = times(square, x);
  const int64_t fourth = times(square, square);
  const int64_t series = x + divided(times(divided(fourth, 4) + cube, 715827883) + square, 2);
  int64_t y = 1895147668 + times(1895147668, series);
  int64_t bits = whole;
  for (const int64_t factor :
       {1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242}) {
    if (bits % 2 != 0) y = times(y, factor);
    bits /= 2;
  }
  return y;
}

/// The exponential of a difference of codes, by the factor of differences.
int64_t term(int64_t difference, double factor) {
  int exponent = 0;
  auto mantissa =
      static_cast<int64_t>(std::floor(std::frexp(factor, &exponent) * 0x1p31 + 0.5));
  if (mantissa == two_31) {
    mantissa = two_31 / 2;
    ++exponent;
  }
  const int64_t power = int64_t{1} << exponent;
  const int64_t farthest = (int64_t{31} << 26) / power;
  if (difference < -farthest) return 0;
  return decay(-times(difference * power, mantissa));
}

/// Computes n codes of y from those of x, which begin at element `at`.
void soften(const Operand& x, const Result& y, int64_t at, int64_t n, double beta) {
  const double factor = std::min(beta * x.value->scales[0] * 0x1p26, 0x1p31 - 1);
  int64_t most = x[at];
  for (int64_t i = 1; i < n; ++i) most = std::max(most, x[at + i]);
  int64_t sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += divided(term(x[at + i] - most, factor), 4096);
  int64_t unit = int64_t{1} << 35;
  for (; sum < two_31; sum *= 2) unit /= 2;
  const int64_t half = sum / 2;
  int64_t inverse = 1515870810 + times(half, -1010580540);
  for (int step = 0; step < 3; ++step) {
    inverse += 4 * times(inverse, two_31 / 4 - times(half, inverse));
  }
  inverse = std::min(2 * inverse, two_31 - 1);
  for (int64_t i = 0; i < n; ++i) {
    const int64_t share = divided(times(inverse, term(x[at + i] - most, factor)), unit);
    y.set(at + i, std::min<int64_t>(share, 255) - 128);
  }
}

}  // namespace

IntegerKernel Softmax::reference(const IntegerBinding& b) const {
  return {.run = [this, x = operand(b, 0), y = result(b), elements = b.out().type.elements()] {
    const int64_t n = x.shape()[-1];
    for (int64_t at = 0; at < elements; at += n) soften(x, y, at, n, beta);
  }};
}

}  // namespace qtape::integer
