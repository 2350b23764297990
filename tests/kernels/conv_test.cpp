#include "qtape/kernels/onednn/conv.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "qtape/core/aligned.h"
#include "qtape/core/half.h"
#include "qtape/core/random.h"
#include "qtape/core/thread_count.h"
#include "qtape/kernels/onednn/conv_faults.h"
#include "qtape/kernels/onednn/gemm.h"
#include "qtape/kernels/simd/threads.h"
#include "qtape/tests/support/op_run.h"
#include "qtape/tests/support/skip.h"

using namespace qtape;
using namespace qtape::kernels;

namespace {

template <class T>
std::vector<T> values(int64_t n, uint64_t seed) {
  const auto x = test::random_floats(static_cast<size_t>(n), seed);
  return {x.begin(), x.end()};
}

/// Draws integers.
class Draw {
 public:
  explicit Draw(uint64_t seed) : random_(seed, 1) {}
  int64_t operator()(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random_.uniform(at_++) * double(high - low + 1));
  }

 private:
  Random random_;
  uint64_t at_ = 0;
};

ConvAxis random_axis(Draw& draw) {
  ConvAxis a{.in = draw(1, 12), .kernel = draw(1, 5), .stride = draw(1, 3)};
  a.dilation = a.kernel == 1 ? 1 : draw(1, 3);
  const int64_t span = (a.kernel - 1) * a.dilation + 1;
  a.begin = draw(0, 3);
  a.end = draw(0, 3);
  while (a.in + a.begin + a.end < span) ++a.in;
  a.out = (a.in + a.begin + a.end - span) / a.stride + 1;
  return a;
}

Conv random_conv(uint64_t seed) {
  Draw draw(seed);
  Conv c{.images = draw(1, 5), .groups = draw(0, 1) == 0 ? 1 : draw(1, 9)};
  c.in_channels = c.groups * draw(1, c.groups > 2 ? 3 : 19);
  c.out_channels = c.groups * draw(1, c.groups > 2 ? 3 : 19);
  c.h = draw(0, 3) == 0 ? ConvAxis{} : random_axis(draw);
  c.w = random_axis(draw);
  c.by_input = draw(0, 1) == 1;
  return c;
}

template <class T>
struct Results {
  std::vector<T> y, dx, dw;
  bool operator==(const Results& other) const {
    const auto same = [](const std::vector<T>& a, const std::vector<T>& b) {
      return std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
    };
    return same(y, other.y) && same(dx, other.dx) && same(dw, other.dw);
  }
};

std::vector<float> narrow(const std::vector<double>& x) { return {x.begin(), x.end()}; }

template <class T>
Results<T> run(const Conv& c, int threads, bool accumulate) {
  const ComputingThread serial;
  const AlignedBuffer scratch(conv_scratch(c));
  const ConvRun how{.scratch = scratch.data(), .threads = threads, .accumulate = accumulate};
  const auto x = values<T>(c.x_elements(), 1);
  const auto w = values<T>(c.filter_elements(), 2);
  const auto dy = values<T>(c.y_elements(), 3);
  Results<T> r{values<T>(c.y_elements(), 4), values<T>(c.x_elements(), 5),
               values<T>(c.filter_elements(), 6)};
  prepare_conv(c, x.data(), w.data(), r.y.data(), how)();
  prepare_conv_data(c, dy.data(), w.data(), r.dx.data(), how)();
  prepare_conv_filters(c, x.data(), dy.data(), r.dw.data(), how)();
  return r;
}

void check_close(const std::vector<float>& got, const std::vector<double>& expected,
                 int64_t terms) {
  double largest = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    largest = std::max(largest, std::fabs(got[i] - expected[i]));
  }
  CHECK(largest <= 2e-7 * static_cast<double>(terms + 1));
}

void check_against_loops(const Conv& c, bool accumulate) {
  INFO("images ", c.images, ", groups ", c.groups, ", channels ", c.in_channels, " to ",
       c.out_channels, ", h ", c.h.in, ", w ", c.w.in, ", kernel ", c.h.kernel, " ",
       c.w.kernel);
  const auto got = run<float>(c, 2, accumulate);
  const auto expected = run<double>(c, 1, accumulate);
  const int64_t taps = c.h.kernel * c.w.kernel;
  check_close(got.y, expected.y, taps * c.in_channels / c.groups);
  check_close(got.dx, expected.dx, taps * c.out_channels / c.groups);
  check_close(got.dw, expected.dw, c.images * c.h.out * c.w.out);
}

}  // namespace

TEST_CASE("conv: oneDNN agrees with plain loops on 200 random shapes") {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    check_against_loops(random_conv(seed), seed % 3 == 0);
  }
}

// The blocks of these filters are padded; oneDNN 3.7.2 reorders some of them wrongly.
TEST_CASE("conv: filters of few channels or of odd numbers agree with plain loops") {
  const ConvAxis axis{.in = 9, .out = 9, .kernel = 3, .begin = 1, .end = 1};
  for (int64_t groups : {1, 2}) {
    for (int64_t in : {1, 2, 3, 17}) {
      for (int64_t out : {1, 5, 8, 33}) {
        for (bool by_input : {false, true}) {
          check_against_loops({.images = 3,
                               .groups = groups,
                               .in_channels = groups * in,
                               .out_channels = groups * out,
                               .h = axis,
                               .w = axis,
                               .by_input = by_input},
                              false);
        }
      }
    }
  }
}

// oneDNN's own implementation writes out of bounds for these, see conv_faults.h.
TEST_CASE("conv: gradients of strided 1x1 filters over few channels agree with plain loops") {
  for (int64_t channels : {1, 3, 4, 7, 8, 12, 15, 16}) {
    for (int64_t stride : {2, 3}) {
      const ConvAxis axis{.in = 32, .out = (32 - 1) / stride + 1, .stride = stride};
      check_against_loops(
          {.images = 8, .in_channels = channels, .out_channels = 8, .h = axis, .w = axis},
          false);
    }
  }
}

TEST_CASE("conv: implementations known to be wrong are told by name, shape and pass") {
  const auto faulty = [](std::string_view name, const ConvAxis& axis, ConvPass pass,
                         int64_t channels) {
    return is_faulty(
        name, {.images = 1, .in_channels = channels, .out_channels = 64, .h = axis}, pass);
  };
  const ConvAxis skips{.in = 9, .out = 3, .kernel = 2, .stride = 3};
  const ConvAxis overlaps{.in = 9, .out = 4, .kernel = 3, .stride = 2};
  const ConvAxis one{.in = 3, .out = 1, .kernel = 3, .stride = 2};
  const std::string_view amx = "brg_conv_fwd:avx10_1_512_amx",
                         avx512 = "brg_conv_fwd:avx512_core_bf16";
  CHECK(faulty(amx, skips, ConvPass::Forward, 64));
  CHECK(faulty(amx, one, ConvPass::Data, 64));
  CHECK_FALSE(faulty(amx, overlaps, ConvPass::Forward, 64));
  CHECK_FALSE(faulty(avx512, skips, ConvPass::Forward, 64));
  const ConvAxis pixel{.in = 9, .out = 5, .stride = 2};
  CHECK(faulty("jit_1x1:avx2", pixel, ConvPass::Filters, 15));
  CHECK_FALSE(faulty("jit_1x1:avx2", pixel, ConvPass::Filters, 16));
  CHECK_FALSE(faulty("jit_1x1:avx2", pixel, ConvPass::Data, 4));
  CHECK_FALSE(faulty("jit:avx2", pixel, ConvPass::Filters, 4));
  CHECK_FALSE(faulty("jit_1x1:avx2", {.in = 9, .out = 9}, ConvPass::Filters, 4));
}

TEST_CASE("conv: operands of bf16 sum whole numbers exactly, where oneDNN takes them") {
  int rounded = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    const ComputingThread serial;
    const Conv c = random_conv(seed);
    Draw draw(seed + 1000);
    const auto whole = [&](int64_t n) {
      std::vector<double> x(static_cast<size_t>(n));
      for (double& each : x) each = static_cast<double>(draw(-15, 15));
      return x;
    };
    const auto x = whole(c.x_elements()), w = whole(c.filter_elements()),
               y = whole(c.y_elements());
    const auto halves = [](const std::vector<double>& of) {
      std::vector<BHalf> narrow;
      for (double each : of) narrow.push_back(to_bhalf(static_cast<float>(each)));
      return narrow;
    };
    const auto x16 = halves(x), y16 = halves(y);
    const auto w32 = narrow(w);
    const bool accumulate = seed % 3 == 0;
    for (ConvPass pass : {ConvPass::Forward, ConvPass::Data, ConvPass::Filters}) {
      if (!has_bf16_conv(c, pass)) continue;
      ++rounded;
      const AlignedBuffer scratch(bf16_conv_scratch(c, pass));
      const ConvRun how{.scratch = scratch.data(), .threads = 2, .accumulate = accumulate};
      auto expected = pass == ConvPass::Forward ? y : pass == ConvPass::Data ? x : w;
      auto got = narrow(expected);
      if (pass == ConvPass::Forward) {
        prepare_conv(c, x.data(), w.data(), expected.data(), how)();
        prepare_conv(c, x16.data(), w32.data(), got.data(), how)();
      } else if (pass == ConvPass::Data) {
        prepare_conv_data(c, y.data(), w.data(), expected.data(), how)();
        prepare_conv_data(c, y16.data(), w32.data(), got.data(), how)();
      } else {
        prepare_conv_filters(c, x.data(), y.data(), expected.data(), how)();
        prepare_conv_filters(c, x16.data(), y16.data(), got.data(), how)();
      }
      CHECK(got == narrow(expected));
    }
  }
  if (!has_bf16_products()) return test::skip("no products in bf16");
  CHECK(rounded > 60);
}

TEST_CASE("conv: no images give no gradient") {
  Conv c{.images = 0};
  CHECK(conv_scratch(c) == 0);
  const float* none = nullptr;
  std::vector<float> dw = {7};
  prepare_conv_filters(c, none, none, dw.data(), {.accumulate = true})();
  CHECK(dw[0] == 7);
  prepare_conv_filters(c, none, none, dw.data(), {})();
  CHECK(dw[0] == 0);
}

TEST_CASE("conv: equal bits at 1, 2, 4 and 8 threads") {
  const ConvAxis same28{.in = 28, .out = 28, .kernel = 3, .begin = 1, .end = 1};
  const ConvAxis same15{.in = 15, .out = 15, .kernel = 5, .begin = 2, .end = 2};
  const ConvAxis half{.in = 28, .out = 14, .kernel = 3, .stride = 2, .begin = 0, .end = 1};
  const std::vector<Conv> table = {
      {.images = 64, .in_channels = 1, .out_channels = 16, .h = same28, .w = same28},
      {.images = 33, .in_channels = 16, .out_channels = 20, .h = same15, .w = same15},
      {.images = 7, .in_channels = 24, .out_channels = 48, .h = half, .w = half},
      {.images = 1, .in_channels = 64, .out_channels = 64, .h = same28, .w = same28},
      {.images = 20,
       .groups = 32,
       .in_channels = 32,
       .out_channels = 32,
       .h = half,
       .w = same28},
      {.images = 6, .groups = 4, .in_channels = 32, .out_channels = 64, .h = same15, .w = half},
      {.images = 40, .in_channels = 3, .out_channels = 70, .w = {.in = 900, .out = 900}}};
  for (const Conv& c : table) {
    INFO("c.images ", c.images, ", c.out_channels ", c.out_channels);
    for (bool accumulate : {false, true}) {
      const auto one = run<float>(c, 1, accumulate);
      for (int threads : {2, 4, 8}) CHECK(run<float>(c, threads, accumulate) == one);
    }
  }
}
