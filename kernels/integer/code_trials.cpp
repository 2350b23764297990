#include "qtape/kernels/integer/code_trials.h"

#include <array>
#include <type_traits>
#include <vector>

#include "qtape/core/error.h"
#include "qtape/core/random.h"
#include "qtape/kernels/integer/channel_products.h"
#include "qtape/kernels/integer/code_products.h"
#include "qtape/kernels/integer/window_products.h"

namespace qtape::kernels {
namespace {

constexpr int64_t run_length = 5;  // no multiple of the terms that are multiplied at once
constexpr int64_t trial_points = 16;

/// True if sums of windows of two runs, or of two taps by channels, are those of plain loops.
template <class Products>
bool is_exact(int64_t n, int64_t points) {
  using Code = typename Products::Code;
  constexpr bool by_channel = std::is_same_v<Products, ChannelProducts>;
  const int64_t length = by_channel ? 1 : run_length;
  const std::array<int64_t, 2> runs = {3, 0};
  const int64_t terms = 2 * length;
  const int64_t step = 2;
  const Random random(0, 0);
  std::vector<Code> x(static_cast<size_t>(points * step + terms + n + 3 + Products::slack));
  // Codes and weights at their bounds are as frequent as all others.
  const auto bound =
      static_cast<Code>(std::is_signed_v<Code> && sizeof(Code) == 1 ? -128 : 255);
  for (size_t i = 0; i < x.size(); ++i) {
    const uint64_t bits = random.bits(i);
    x[i] = bits % 2 == 0 ? bound : static_cast<Code>(bits >> 56);
  }
  std::vector<int8_t> w(static_cast<size_t>(n * terms));
  for (size_t i = 0; i < w.size(); ++i) {
    const uint64_t bits = random.bits(x.size() + i);
    w[i] = bits % 4 == 0   ? int8_t{-128}
           : bits % 4 == 1 ? int8_t{127}
                           : static_cast<int8_t>(bits >> 56);
  }
  Products products(n, runs, length);
  products.load(w.data(), true, 1);
  std::vector<int32_t> y(static_cast<size_t>(points * n), -1);
  products.run(x.data(), step, points, y.data());
  for (int64_t p = 0; p < points; ++p) {
    for (int64_t o = 0; o < n; ++o) {
      int32_t sum = 0;
      for (int64_t t = 0; t < terms; ++t) {
        const int64_t at =
            p * step + runs[static_cast<size_t>(t / length)] + (by_channel ? o : t % length);
        sum += int32_t{x[static_cast<size_t>(at)]} * w[static_cast<size_t>(o * terms + t)];
      }
      if (y[static_cast<size_t>(p * n + o)] != sum) return false;
    }
  }
  return true;
}

template <class Products>
bool all_exact() {
  // One vector of outputs, a part of one, and two with a part of a third.
  for (const int64_t n : {16, 3, 35}) {
    for (int64_t points = 1; points <= trial_points; ++points) {
      if (!is_exact<Products>(n, points)) return false;
    }
  }
  return true;
}

template <class Windows>
bool tried() {
  static const bool exact = all_exact<Windows>() && all_exact<ChannelProducts>();
  return exact;
}

bool tried(CodeProducts products) {
  switch (products) {
    case CodeProducts::Bytes:
      return tried<WindowProducts<ByteCode>>();
    case CodeProducts::Words:
      return tried<WindowProducts<int16_t>>();
    case CodeProducts::None:
      break;
  }
  return true;
}

}  // namespace

void require_exact_code_products() {
  const CodeProducts products = code_products();
  require<Error>(tried(products),
                 "this processor computes known products of codes wrongly by {}; set QTAPE_ISA "
                 "to a lower instruction set",
                 name_of(products));
}

}  // namespace qtape::kernels
