#include "qtape/kernels/onednn/gemm.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "qtape/core/half.h"
#include "qtape/core/random.h"
#include "qtape/core/thread_count.h"
#include "qtape/kernels/simd/threads.h"
#include "qtape/tests/support/op_run.h"
#include "qtape/tests/support/skip.h"

using namespace qtape;
using namespace qtape::kernels;

namespace {

std::vector<float> values(int64_t n, uint64_t seed) {
  return test::random_floats(static_cast<size_t>(n), seed);
}

std::vector<float> product(const Gemm& g, int threads) {
  const ComputingThread serial;
  const auto a = values(g.batch * g.m * g.k, 1);
  const auto b = values(g.batch * g.k * g.n, 2);
  auto c = values(g.batch * g.m * g.n, 3);
  prepare_gemm(g, a.data(), b.data(), c.data(), threads)();
  return c;
}

/// Kinds 0 to 15: transposes, accumulation and batches of 1 or 3.
Gemm of_kind(int kind, int64_t m, int64_t n, int64_t k) {
  return {1 + 2 * (kind >> 3), m, n, k, (kind & 1) != 0, (kind & 2) != 0, (kind & 4) != 0};
}

}  // namespace

TEST_CASE("gemm: f32 agrees with the f64 loop for all transposes, batches and accumulation") {
  for (int kind = 0; kind < 16; ++kind) {
    const Gemm g = of_kind(kind, 17, 9, kind == 0 ? 2500 : 33);
    const auto a = values(g.batch * g.m * g.k, 1);
    const auto b = values(g.batch * g.k * g.n, 2);
    const auto c = values(g.batch * g.m * g.n, 3);
    const std::vector<double> a64(a.begin(), a.end()), b64(b.begin(), b.end());
    std::vector<double> c64(c.begin(), c.end());
    prepare_gemm(g, a64.data(), b64.data(), c64.data(), 1)();
    const auto c32 = product(g, 2);
    for (size_t i = 0; i < c32.size(); ++i) {
      CHECK(std::fabs(c32[i] - c64[i]) <= 2e-7 * static_cast<double>(g.k));
    }
  }
}

TEST_CASE("gemm: products of bf16 sum whole numbers exactly") {
  if (!has_bf16_products()) return test::skip("no products in bf16");
  const ComputingThread serial;
  const Random random(4, 0);
  const auto whole = [&](int64_t n, uint64_t first) {
    std::vector<double> x(static_cast<size_t>(n));
    for (size_t i = 0; i < x.size(); ++i) {
      x[i] = static_cast<double>(random.below(first + i, 255)) - 127;
    }
    return x;
  };
  const auto rounded = [](const std::vector<double>& x) {
    std::vector<BHalf> y;
    for (double each : x) y.push_back(to_bhalf(static_cast<float>(each)));
    return y;
  };
  for (int kind = 0; kind < 16; ++kind) {
    const Gemm g = of_kind(kind, 130, 70, kind == 0 ? 900 : 33);
    const auto a = whole(g.batch * g.m * g.k, 0);
    const auto b = whole(g.batch * g.k * g.n, 1 << 20);
    auto expected = whole(g.batch * g.m * g.n, 1 << 21);
    std::vector<float> c(expected.begin(), expected.end());
    prepare_gemm(g, a.data(), b.data(), expected.data(), 1)();
    const auto a16 = rounded(a), b16 = rounded(b);
    prepare_gemm(g, a16.data(), b16.data(), c.data(), 3)();
    for (size_t i = 0; i < c.size(); ++i) REQUIRE(c[i] == expected[i]);
  }
}

TEST_CASE("gemm: an empty sum is zero, or what was there") {
  std::vector<float> c = {1, 2};
  prepare_gemm(Gemm{.m = 1, .n = 2, .k = 0, .accumulate = true}, c.data(), c.data(), c.data(),
               1)();
  CHECK(c == std::vector<float>{1, 2});
  prepare_gemm(Gemm{.m = 1, .n = 2, .k = 0}, c.data(), c.data(), c.data(), 1)();
  CHECK(c == std::vector<float>{0, 0});
}

TEST_CASE("gemm: equal bits at 1, 2, 4 and 8 threads, long sums and narrow results included") {
  using Extents = std::array<int64_t, 3>;
  for (const Extents& extents :
       {Extents{64, 256, 784}, Extents{64, 10, 128}, Extents{256, 784, 64},
        Extents{10, 128, 8192}, Extents{10, 10, 60000}, Extents{1, 10, 1024},
        Extents{1, 1, 5000}, Extents{33, 1000, 70}, Extents{1000, 31, 70}, Extents{2, 3, 1024},
        Extents{3000, 33, 1500}, Extents{128, 10, 1000}}) {
    for (int kind = 0; kind < 4; ++kind) {
      const Gemm g = of_kind(kind, extents[0], extents[1], extents[2]);
      const auto one = product(g, 1);
      INFO("m ", g.m, ", n ", g.n, ", k ", g.k, ", kind ", kind);
      for (int threads : {2, 4, 8}) {
        const auto many = product(g, threads);
        CHECK(std::memcmp(one.data(), many.data(), one.size() * sizeof(float)) == 0);
      }
    }
  }
}
