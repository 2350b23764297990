// Reference of the norm of codes.
#include "qtape/integer/ops/normalize.h"
#include "qtape/integer/reference/integers.h"

namespace qtape::integer {

using namespace reference;
namespace {

/// Returns the largest r with r^2 <= v, bit by bit.
int64_t root(int64_t v) {
  int64_t r = 0;
  for (int bit = 31; bit-- > 0;) {
    const int64_t more = r + (int64_t{1} << bit);
    if (more * more <= v) r = more;
  }
  return r;
}

/// Returns round(2^16 d / sqrt(v / 4^shift)), by the factor that a set has in common.
int64_t quotient(int64_t d, int64_t v, int shift) {
  int k = 0;
  while (v < int64_t{1} << 60) {
    v *= 4;
    ++k;
  }
  const int64_t factor = ((int64_t{1} << 61) - 1) / root(v);
  const int64_t unit = int64_t{1} << (45 - k - shift);
  const int64_t rounded = d * factor + unit / 2;
  const int64_t quotient = rounded / unit;
  return quotient * unit > rounded ? quotient - 1 : quotient;
}

/// Normalizes the set that begins at element `first` and has `width` channels.
void normalize(const Normalize& op, const Operand& x, const Result& y, int64_t first,
               int64_t positions, int64_t width) {
  const int64_t channels = x.shape()[-1];
  const auto* factors = reinterpret_cast<const int32_t*>(op.signs.data.data());
  const auto* offsets = reinterpret_cast<const int32_t*>(op.bias.data.data());
  const auto each = [&](const auto& body) {
    for (int64_t p = 0; p < positions; ++p) {
      for (int64_t k = 0; k < width; ++k) body(first + p * channels + k);
    }
  };
  int64_t sum = 0;
  int64_t squares = 0;
  each([&](int64_t i) {
    sum += x.difference(i);
    squares += x.difference(i) * x.difference(i);
  });
  if (!op.centered) sum = 0;
  const int64_t n = positions * width;
  int64_t v = n * squares - sum * sum;
  for (int bit = 0; bit < op.shift; ++bit) v *= 4;
  v = std::max(v + op.epsilon, op.least);
  each([&](int64_t i) {
    const int64_t h = quotient(n * x.difference(i) - sum, v, op.shift);
    y.set(i, factors[i % channels] * h + offsets[i % channels]);
  });
}

}  // namespace

IntegerKernel Normalize::reference(const IntegerBinding& b) const {
  return {.run = [this, x = operand(b, 0), y = result(b), elements = b.out().type.elements()] {
    if (elements == 0) return;
    const Shape& shape = x.shape();
    const int64_t width = shape[-1] / groups;
    int64_t positions = 1;
    for (int axis = 1; axis + 1 < shape.rank() && joint; ++axis) positions *= shape[axis];
    for (int64_t begin = 0; begin < elements; begin += positions * shape[-1]) {
      for (int64_t c = 0; c < shape[-1]; c += width) {
        normalize(*this, x, y, begin + c, positions, width);
      }
    }
  }};
}

}  // namespace qtape::integer
