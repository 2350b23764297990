// Products of codes, against loops over 64-bit integers.
#include "qtape/kernels/onednn/integer_gemm.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <thread>
#include <type_traits>
#include <vector>

#include "qtape/core/error.h"
#include "qtape/core/random.h"
#include "qtape/core/thread_count.h"
#include "qtape/kernels/onednn/int8_exactness.h"
#include "qtape/kernels/simd/threads.h"
#include "qtape/tests/support/errors.h"
#include "qtape/tests/support/first_difference.h"
#include "qtape/tests/support/skip.h"

using namespace qtape;
using namespace qtape::kernels;

namespace {

/// Distribution of the drawn codes.
enum class Draw { Full, Ends, Top, Small, SmallTop, Tiny };

/// Codes in [low, high]: any, only the two ends, or only near the upper end.
template <class T>
std::vector<T> codes(int64_t n, uint64_t seed, int low, int high, bool ends, bool top) {
  const Random random(seed, 0);
  std::vector<T> all(static_cast<size_t>(n));
  const auto count = static_cast<uint64_t>(int64_t{high} - low + 1);
  for (size_t i = 0; i < all.size(); ++i) {
    const auto any = low + static_cast<int>(random.below(i, count));
    const int low_end = random.below(i, 2) == 0 ? low : high;
    all[i] = static_cast<T>(top ? high - (any & 1) : ends ? low_end : any);
  }
  return all;
}

/// Weights for x up to 255. With small weights, the sum of any two products fits 16 bits; with
/// tiny ones, no sum of 20,000 products reaches 2^24 either.
std::vector<int8_t> weights(int64_t n, Draw draw) {
  const bool small = draw == Draw::Small || draw == Draw::SmallTop;
  const bool tiny = draw == Draw::Tiny;
  const int high = tiny ? 3 : small ? 64 : 127;
  return codes<int8_t>(n, 1, high == 127 ? -128 : -high, high, draw == Draw::Ends,
                       draw == Draw::Top || draw == Draw::SmallTop);
}

struct Extents {
  int64_t rows, k, n;
};

/// First accumulator that differs from a sum of 64-bit integers.
template <class X>
std::string wrong_sums(const Extents& e, const std::vector<X>& x, const std::vector<int8_t>& w,
                       const std::vector<int32_t>& acc) {
  test::FirstDifference found;
  for (int64_t r = 0; r < e.rows; ++r) {
    for (int64_t c = 0; c < e.n; ++c) {
      int64_t sum = 0;
      for (int64_t i = 0; i < e.k; ++i) {
        sum +=
            int64_t{x[static_cast<size_t>(r * e.k + i)]} * w[static_cast<size_t>(c * e.k + i)];
      }
      found.compare<int64_t>(acc[static_cast<size_t>(r * e.n + c)], sum);
    }
  }
  return found.text();
}

template <class X>
std::vector<X> sources(int64_t n, Draw draw) {
  constexpr bool is_signed = std::is_signed_v<X>;
  return codes<X>(n, 2, is_signed ? -128 : 0, is_signed ? 127 : 255, draw == Draw::Ends,
                  draw == Draw::Top || draw == Draw::SmallTop);
}

/// The same for drawn codes.
template <class X>
std::string wrong_sums(const Extents& e, Draw draw) {
  const ComputingThread serial;
  const auto x = sources<X>(e.rows * e.k, draw);
  const auto w = weights(e.n * e.k, draw);
  std::vector<int32_t> acc(static_cast<size_t>(e.rows * e.n), -7);
  Int8Product product(e.n, e.k, dtype_of<X>, w.data());
  const BoundInt8Product run = product.bind(e.rows, x.data(), acc.data());
  CHECK(run());
  return wrong_sums(e, x, w, acc);
}

std::vector<Extents> all_extents() {
  std::vector<Extents> all = {{64, 1024, 1024}, {9, 5001, 33}, {64, 20000, 5}, {256, 27, 16}};
  for (int64_t rows : {1, 7, 64}) {
    for (int64_t k : {1, 2, 3, 5, 63, 784, 1024}) {
      for (int64_t n : {1, 10, 17}) all.push_back({rows, k, n});
    }
    all.push_back({rows, 3, 1024});
    all.push_back({rows, 130, 1024});
  }
  return all;
}

void check_exact(Draw draw, int64_t max_terms = INT64_MAX) {
  for (const Extents& e : all_extents()) {
    if (e.k > max_terms) continue;
    INFO(int8_isa(), ", rows ", e.rows, ", k ", e.k, ", n ", e.n, ", draw ", int(draw));
    CHECK(wrong_sums<uint8_t>(e, draw) == "");
    CHECK(wrong_sums<int8_t>(e, draw) == "");
  }
}

}  // namespace

TEST_CASE(
    "integer_gemm: pairs in 16 bits and accumulators in 24 are exact on every processor") {
  REQUIRE(int8_exactness() != Int8Exactness::Never);
  check_exact(Draw::Tiny);
  constexpr int64_t in_24_bits = (int64_t{1} << 24) / (int64_t{255} * 64);
  check_exact(Draw::Small, in_24_bits);
  check_exact(Draw::SmallTop, in_24_bits);
}

TEST_CASE("integer_gemm: pairs in 16 bits give exact accumulators where they are promised") {
  if (int8_exactness() > Int8Exactness::Pairs) {
    return test::skip("pairs in 16 bits are not promised");
  }
  check_exact(Draw::Small);
  check_exact(Draw::SmallTop);
}

TEST_CASE("integer_gemm: all codes give exact accumulators where they are promised") {
  if (int8_exactness() != Int8Exactness::Always) {
    return test::skip("exact sums of all codes are not promised");
  }
  for (Draw draw : {Draw::Full, Draw::Ends, Draw::Top}) check_exact(draw);
}

TEST_CASE("integer_gemm: a trial finds where accumulators are wrong") {
  // Where accumulators go through f32, sums of pairs may fit 32 bits nevertheless.
  if (tried_int8_exactness() <= Int8Exactness::Pairs) {
    for (Draw draw : {Draw::Full, Draw::Top}) {
      const bool wrong = tried_int8_exactness() == Int8Exactness::Pairs;
      CHECK((wrong_sums<uint8_t>({64, 784, 17}, draw) != "") == wrong);
      CHECK((wrong_sums<int8_t>({64, 784, 17}, draw) != "") == wrong);
    }
  }
  const bool wrong = tried_int8_exactness() >= Int8Exactness::PairsAnd24Bits;
  CHECK((wrong_sums<uint8_t>({9, 5001, 33}, Draw::SmallTop) != "") == wrong);
  CHECK((wrong_sums<int8_t>({9, 5001, 33}, Draw::SmallTop) != "") == wrong);
  CHECK(int8_exactness() >= tried_int8_exactness());
}

TEST_CASE("integer_gemm: empty products") {
  const ComputingThread serial;
  std::vector<int32_t> acc = {1, 2, 3, 4};
  Int8Product no_terms(2, 0, DType::S8, nullptr);
  CHECK(no_terms.bind(2, nullptr, acc.data())());
  CHECK(acc == std::vector<int32_t>{0, 0, 0, 0});
  Int8Product no_channels(0, 3, DType::U8, nullptr);
  CHECK(no_channels.bind(2, nullptr, nullptr)());
  const int8_t w = 1;
  CHECK(Int8Product(1, 1, DType::U8, &w).bind(0, nullptr, nullptr)());
  CHECK(BoundInt8Product()());
}

TEST_CASE("integer_gemm: runs of a product share weights, outlive it and run side by side") {
  const Extents e{71, 100, 40};
  const auto x = sources<int8_t>(e.rows * e.k, Draw::Small);
  const auto w = weights(e.n * e.k, Draw::Small);
  std::vector<int32_t> acc(static_cast<size_t>(e.rows * e.n), -7);
  std::vector<BoundInt8Product> runs;
  {
    Int8Product product(e.n, e.k, DType::S8, w.data());
    for (int64_t begin = 0; begin < e.rows; begin += 32) {
      const int64_t rows = std::min<int64_t>(32, e.rows - begin);
      runs.push_back(product.bind(rows, x.data() + begin * e.k, acc.data() + begin * e.n));
    }
  }
  std::vector<std::thread> threads;
  for (const BoundInt8Product& run : runs) {
    threads.emplace_back([&run] {
      const ComputingThread serial;
      for (int i = 0; i < 50; ++i) run();
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong_sums(e, x, w, acc) == "");
}

TEST_CASE("integer_gemm: runs of different numbers of rows, one after the other") {
  REQUIRE(int8_exactness() != Int8Exactness::Never);
  const ComputingThread serial;
  for (const int64_t k : {61, 63, 64, 124, 125, 126, 127, 128, 129, 191, 255}) {
    for (const int64_t n : {3, 16, 19, 40}) {
      const auto w = weights(n * k, Draw::Tiny);
      std::vector<int8_t> columns(w.size());
      for (int64_t c = 0; c < n; ++c) {
        for (int64_t i = 0; i < k; ++i) {
          columns[static_cast<size_t>(i * n + c)] = w[static_cast<size_t>(c * k + i)];
        }
      }
      const auto check_kind = [&]<class X>(Int8Weights kind, const X*) {
        const auto x = sources<X>(256 * k, Draw::Tiny);
        const auto* given = kind == Int8Weights::Columns ? columns.data() : w.data();
        Int8Product product(n, k, std::is_same_v<X, int8_t> ? DType::S8 : DType::U8, given,
                            kind);
        std::vector<int32_t> acc(static_cast<size_t>(256 * n));
        std::vector<std::pair<int64_t, BoundInt8Product>> runs;
        for (const int64_t rows : {256, 72, 140, 7, 198, 1}) {
          runs.emplace_back(rows, product.bind(rows, x.data(), acc.data()));
        }
        product.load();
        INFO("k ", k, ", n ", n);
        for (const auto& [rows, run] : runs) {
          std::ranges::fill(acc, -7);
          CHECK(run());
          CHECK(wrong_sums(Extents{rows, k, n}, x, w, acc) == "");
        }
      };
      for (const auto kind : {Int8Weights::Constant, Int8Weights::Rows, Int8Weights::Columns}) {
        check_kind(kind, static_cast<const uint8_t*>(nullptr));
        check_kind(kind, static_cast<const int8_t*>(nullptr));
      }
    }
  }
}

TEST_CASE("integer_gemm: what cannot be a product of codes is refused") {
  CHECK(
      test::error_text<GraphError>([] { Int8Product(-1, 2, DType::U8, nullptr); }) ==
      "an int8 product needs non-negative extents and x in u8 or s8, got n = -1, k = 2 and u8");
  CHECK(
      test::error_text<GraphError>([] { Int8Product(1, 2, DType::S16, nullptr); }) ==
      "an int8 product needs non-negative extents and x in u8 or s8, got n = 1, k = 2 and s16");
  CHECK(test::error_text<GraphError>([] {
          Int8Product(1, 0, DType::U8, nullptr).bind(-1, nullptr, nullptr);
        }) == "an int8 product needs a non-negative number of rows, got -1");
}
