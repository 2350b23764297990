// Products of windows and of channels, against plain loops.
#include "qtape/kernels/integer/window_products.h"

#include <doctest/doctest.h>

#include "qtape/core/random.h"
#include "qtape/kernels/integer/channel_products.h"
#include "qtape/kernels/integer/code_products.h"
#include "qtape/tests/support/first_difference.h"
#include "qtape/tests/support/skip.h"

using namespace qtape;
using namespace qtape::kernels;

namespace {

/// One convolution of random codes along lines, and its sums by plain loops. In ChannelProducts
/// each output has its own code of a tap; otherwise all outputs share the codes of a run.
template <class Products>
class Trial {
  using Code = typename Products::Code;
  static constexpr bool channels = std::is_same_v<Products, ChannelProducts>;

 public:
  explicit Trial(uint64_t seed, bool extremes) : random_(seed, 31), extremes_(extremes) {
    n_ = 1 + below(70);
    length_ = channels ? 1 : 1 + below(40);
    step_ = below(3) == 0 ? 0 : below(50);
    points_ = below(40);
    for (int64_t i = below(5); i >= 0; --i) runs_.push_back(below(300));
    rows_ = below(2) == 0;
  }

  /// Returns the first sum that differs.
  std::string difference() {
    const int64_t reach = 300 + points_ * step_ + length_ + n_ + Products::slack;
    std::vector<Code> x;
    for (int64_t i = 0; i < reach; ++i) x.push_back(static_cast<Code>(code()));
    const int64_t terms = std::ssize(runs_) * length_;
    std::vector<int8_t> w;
    for (int64_t i = 0; i < n_ * terms; ++i) w.push_back(weight());

    Products products(n_, runs_, length_);
    products.load(w.data(), rows_, 2);
    // Memory after the result must not change.
    std::vector<int32_t> y(static_cast<size_t>(points_ * n_ + 64), 77);
    products.run(x.data(), step_, points_, y.data());

    test::FirstDifference found;
    for (int64_t p = 0; p < points_; ++p) {
      for (int64_t o = 0; o < n_; ++o) {
        int64_t sum = 0;
        for (int64_t t = 0; t < terms; ++t) {
          const int64_t at = p * step_ + runs_[static_cast<size_t>(t / length_)] +
                             (channels ? o : t % length_);
          sum += int64_t{x[static_cast<size_t>(at)]} *
                 w[static_cast<size_t>(rows_ ? o * terms + t : t * n_ + o)];
        }
        found.compare<int64_t>(y[static_cast<size_t>(p * n_ + o)], sum, "sum");
      }
    }
    for (int64_t i = points_ * n_; i < std::ssize(y); ++i) {
      found.compare(y[static_cast<size_t>(i)], 77, "after the result");
    }
    return found.text();
  }

 private:
  int64_t below(int64_t n) {
    return static_cast<int64_t>(random_.below(draws_++, static_cast<uint64_t>(n)));
  }
  int64_t code() {
    if (sizeof(Code) == 1) return extremes_ ? 255 * below(2) : below(256);
    return extremes_ ? 255 - 510 * below(2) : below(511) - 255;
  }
  int8_t weight() {
    return static_cast<int8_t>(extremes_ ? 127 - 255 * below(2) : below(256) - 128);
  }

  Random random_;
  uint64_t draws_ = 0;
  bool extremes_;
  int64_t n_, length_, step_, points_;
  std::vector<int64_t> runs_;
  bool rows_;
};

template <class Products>
void check_all() {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    CHECK(Trial<Products>(seed, seed % 4 == 0).difference() == "");
  }
}

}  // namespace

TEST_CASE("window_products: sums equal plain loops for all shapes, codes and weights") {
  MESSAGE("products by ", name_of(code_products()));
  if (code_products() == CodeProducts::None) return test::skip("no products of codes");
  check_all<WindowProducts<int16_t>>();
  check_all<ChannelProducts>();
  if (code_products() != CodeProducts::Bytes) return test::skip("no products of bytes");
  check_all<WindowProducts<ByteCode>>();
}
