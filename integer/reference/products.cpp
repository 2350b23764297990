// References of integer ops that sum products of codes.
#include "qtape/integer/ops/conv.h"
#include "qtape/integer/ops/linear.h"
#include "qtape/integer/ops/matmul.h"
#include "qtape/integer/reference/integers.h"
#include "qtape/integer/reference/windows.h"

namespace qtape::integer {
namespace {

using namespace reference;

/// Codes [n, k] and biases [n] as stored: codes in two's complement, one after another, the
/// first in the lowest bits of a byte.
struct Weights {
  std::vector<int64_t> codes;
  std::vector<int64_t> biases;

  explicit Weights(const QuantizedWeights& from) {
    const int bits = from.storage_bits;
    for (int64_t i = 0; i < from.shape[0] * from.shape[1]; ++i) {
      const auto byte =
          std::to_integer<int>(from.codes.data[static_cast<size_t>(i * bits / 8)]);
      const int code = byte >> (i * bits % 8) & ((1 << bits) - 1);
      codes.push_back(code < 1 << (bits - 1) ? code : code - (1 << bits));
    }
    const auto* bias = reinterpret_cast<const int32_t*>(from.bias.data.data());
    for (int64_t c = 0; c < from.shape[0]; ++c) {
      biases.push_back(from.bias.type.elements() == 0 ? 0 : bias[c]);
    }
  }
};

Buffer differences_of(const Operand& x) { return buffer(x.shape().elements()); }

/// Fills `to` with the codes of x minus their zero point.
const std::vector<int64_t>& load(const Operand& x, const Buffer& to) {
  for (size_t i = 0; i < to->size(); ++i) (*to)[i] = x.difference(static_cast<int64_t>(i));
  return *to;
}

}  // namespace

IntegerKernel Linear::reference(const IntegerBinding& b) const {
  return {.run = [w = Weights(weights), n = weights.shape[0], k = weights.shape[1],
                  x = operand(b, 0), y = result(b), elements = b.out().type.elements(),
                  of = differences_of(operand(b, 0))] {
    const std::vector<int64_t>& from = load(x, of);
    for (int64_t i = 0; i < elements; ++i) {
      const int64_t row = i / n;
      const int64_t c = i % n;
      int64_t sum = w.biases[static_cast<size_t>(c)];
      for (int64_t t = 0; t < k; ++t) {
        sum += from[static_cast<size_t>(row * k + t)] * w.codes[static_cast<size_t>(c * k + t)];
      }
      y.set(i, sum);
    }
  }};
}

IntegerKernel MatMul::reference(const IntegerBinding& b) const {
  const Operand a = operand(b, 0);
  const Operand c = operand(b, 1);
  const int64_t m = b.out().type.shape[-2];
  const int64_t n = b.out().type.shape[-1];
  const int64_t k = a.shape()[transpose_a ? -2 : -1];
  const bool shared = c.shape().rank() == 2;
  return {
      .run = [this, a, c, m, n, k, shared, y = result(b), elements = b.out().type.elements()] {
        for (int64_t i = 0; i < elements; ++i) {
          const int64_t matrix = i / (m * n);
          const int64_t row = i / n % m;
          const int64_t column = i % n;
          int64_t sum = 0;
          for (int64_t t = 0; t < k; ++t) {
            const int64_t at_a = matrix * m * k + (transpose_a ? t * m + row : row * k + t);
            const int64_t at_c =
                (shared ? 0 : matrix * k * n) + (transpose_b ? column * k + t : t * n + column);
            sum += a.difference(at_a) * c.difference(at_c);
          }
          y.set(i, sum);
        }
      }};
}

IntegerKernel Conv::reference(const IntegerBinding& b) const {
  const Windows g = windows_of(*this, taps, dilation, b.in(0).type.shape, b.out().type.shape);
  return {.run = [this, w = Weights(weights), g, x = operand(b, 0), y = result(b),
                  of = differences_of(operand(b, 0))] {
    const std::vector<int64_t>& from = load(x, of);
    const int64_t outputs = weights.shape[0];
    const int64_t channels = g.channels / groups;
    int64_t at = 0;
    for_each_window(g, [&](int64_t n, int64_t i, int64_t j) {
      for (int64_t o = 0; o < outputs; ++o) {
        const int64_t first = o / (outputs / groups) * channels;
        int64_t sum = w.biases[static_cast<size_t>(o)];
        for_each_element(g, i, j, [&](int64_t row, int64_t column, int64_t p, int64_t q) {
          const int64_t at_x = ((n * g.h.in + row) * g.w.in + column) * g.channels + first;
          const int64_t by = ((o * g.h.kernel + p) * g.w.kernel + q) * channels;
          for (int64_t c = 0; c < channels; ++c) {
            sum += from[static_cast<size_t>(at_x + c)] * w.codes[static_cast<size_t>(by + c)];
          }
        });
        y.set(at++, sum);
      }
    });
  }};
}

}  // namespace qtape::integer
