// Certificates compared with all possible inputs.
#include "qtape/integer/core/certificate.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "qtape/core/random.h"
#include "qtape/integer/core/product_path.h"

using namespace qtape;
using namespace qtape::kernels;

namespace {

struct OneLayer {
  std::vector<int8_t> weights;  // [n, k]
  int64_t n = 1;
  int64_t k = 1;
  std::vector<int32_t> bias;
  IntegerValue x;
};

IntegerValue codes(DType dtype, int64_t low, int64_t high, int32_t zero_point) {
  return {{dtype, {1, 1}}, {1.0}, zero_point, low, high};
}

/// Calls `body` with every vector of k codes of x.
template <class Body>
void for_all_inputs(const OneLayer& layer, const Body& body) {
  std::vector<int64_t> x(static_cast<size_t>(layer.k), layer.x.low);
  for (bool more = true; more;) {
    body(x);
    more = false;
    for (size_t i = 0; i < x.size() && !more; ++i) {
      more = x[i] < layer.x.high;
      x[i] = more ? x[i] + 1 : layer.x.low;
    }
  }
}

/// Returns the factors that a processor multiplies: 8-bit codes, with 128 added to s8, or both
/// parts of 16-bit codes.
std::vector<int64_t> factors(int64_t code, DType dtype) {
  switch (dtype) {
    case DType::U8:
      return {code};
    case DType::S8:
      return {code + 128};
    case DType::U16:
      return {code >> 8, code & 255};
    default:
      return {(code >> 8) + 128, code & 255};
  }
}

/// The largest magnitudes found.
struct Found {
  int64_t sum = 0;
  int64_t part = 0;
  int64_t pair = 0;
  int64_t int8 = 0;  // of products as computed by a processor
};

void grow(int64_t& most, int64_t v) { most = std::max(most, std::abs(v)); }

/// Records partial sums of the products, in order, and the sums with bias and zero point.
void note_sums(const OneLayer& l, const std::vector<int64_t>& x, size_t c, Found& found) {
  const auto k = static_cast<size_t>(l.k);
  const bool wide = size_of(l.x.type.dtype) == 2;
  int64_t sum = 0, upper = 0, lower = 0;
  int64_t offset = l.bias.empty() ? 0 : l.bias[c];
  for (size_t i = 0; i < k; ++i) offset -= int64_t{l.weights[c * k + i]} * l.x.zero_point;
  for (size_t i = 0; i < k; ++i) {
    const int64_t w = l.weights[c * k + i];
    sum += w * x[i];
    upper += w * (x[i] >> 8);
    lower += w * (x[i] & 255);
    grow(found.sum, sum);
    grow(found.part, wide ? upper : sum);
    if (wide) grow(found.part, lower);
  }
  grow(found.sum, offset);
  grow(found.sum, sum + offset);
}

/// Records the sums of the positive products and of the negative ones.
void note_int8_sums(const OneLayer& l, const std::vector<int64_t>& x, size_t c, Found& found) {
  std::vector<int64_t> above(2), below(2);  // by part
  for (size_t i = 0; i < x.size(); ++i) {
    const int64_t w = l.weights[c * x.size() + i];
    const auto parts = factors(x[i], l.x.type.dtype);
    for (size_t p = 0; p < parts.size(); ++p) (w > 0 ? above : below)[p] += w * parts[p];
  }
  for (size_t p = 0; p < 2; ++p) {
    grow(found.int8, above[p]);
    grow(found.int8, below[p]);
  }
}

void note_pairs(const OneLayer& l, const std::vector<int64_t>& x, size_t c, Found& found) {
  const auto k = static_cast<size_t>(l.k);
  for (size_t i = 0; i < k; ++i) {
    for (size_t j = i + 1; j < k; ++j) {
      const auto a = factors(x[i], l.x.type.dtype);
      const auto b = factors(x[j], l.x.type.dtype);
      for (size_t p = 0; p < a.size(); ++p) {
        grow(found.pair, a[p] * l.weights[c * k + i] + b[p] * l.weights[c * k + j]);
      }
    }
  }
}

void check_layer(const OneLayer& l) {
  const Certificate c = certify(l.weights, l.n, l.k, l.bias, l.x);
  Found found;
  for (int64_t row = 0; row < l.n; ++row) {
    const auto at = static_cast<size_t>(row);
    const auto w =
        std::span(l.weights).subspan(at * static_cast<size_t>(l.k), static_cast<size_t>(l.k));
    const int64_t b = l.bias.empty() ? 0 : l.bias[at];
    int64_t low = INT64_MAX, high = INT64_MIN;
    for_all_inputs(l, [&](const std::vector<int64_t>& x) {
      int64_t sum = b;
      for (size_t i = 0; i < x.size(); ++i) sum += w[i] * (x[i] - l.x.zero_point);
      low = std::min(low, sum);
      high = std::max(high, sum);
      note_sums(l, x, at, found);
      note_pairs(l, x, at, found);
      note_int8_sums(l, x, at, found);
    });
    const AccumulatorRange range = accumulator_range(w, b, l.x);
    CHECK(range.low == low);
    CHECK(range.high == high);
  }
  CHECK(found.sum <= c.accumulator_bound);
  CHECK(found.part <= c.part_bound);
  CHECK(found.pair <= c.pair_bound);
  CHECK(found.int8 <= int8_accumulator_bound(c, l.x));
}

}  // namespace

TEST_CASE(
    "certificate: nothing that occurs is beyond a bound, and the range of accumulators is attained") {
  const Random random(3, 3);
  uint64_t at = 0;
  const auto below = [&](int64_t n) {
    return static_cast<int64_t>(random.below(at++, static_cast<uint64_t>(n)));
  };
  struct Range {
    DType dtype;
    int64_t low, high;
    int32_t zero_point;
  };
  const std::vector<Range> ranges = {
      {DType::U8, 0, 7, 3},          {DType::U8, 250, 255, 0},
      {DType::U8, 5, 9, 5},          {DType::U8, 2, 2, 255},
      {DType::S8, -128, -121, 0},    {DType::S8, 120, 127, -5},
      {DType::S8, 0, 6, 0},          {DType::S8, -3, 4, 1},
      {DType::U16, 0, 6, 2},         {DType::U16, 65530, 65535, 7},
      {DType::U16, 253, 258, 256},   {DType::S16, -32768, -32762, 0},
      {DType::S16, 32762, 32767, 3}, {DType::S16, -3, 3, 0},
      {DType::S16, 254, 259, -1}};
  for (const Range& range : ranges) {
    for (int trial = 0; trial < 12; ++trial) {
      OneLayer l{.n = 1 + below(3), .k = 1 + below(4)};
      const bool ends = below(2) == 0;
      for (int64_t i = 0; i < l.n * l.k; ++i) {
        l.weights.push_back(
            static_cast<int8_t>(ends ? (below(2) == 0 ? -128 : 127) : below(256) - 128));
      }
      if (below(2) == 0) {
        for (int64_t i = 0; i < l.n; ++i) {
          l.bias.push_back(static_cast<int32_t>(below(100000) - 50000));
        }
      }
      l.x = codes(range.dtype, range.low, range.high, range.zero_point);
      CAPTURE(to_string_view(range.dtype));
      CAPTURE(range.low);
      check_layer(l);
    }
  }
}

TEST_CASE("certificate: bounds of full ranges") {
  const std::vector<int8_t> w = {127, 127, -128, 1};
  const auto with = [&](DType dtype, int64_t low, int64_t high, int32_t zero_point) {
    return certify(w, 1, 4, {}, codes(dtype, low, high, zero_point));
  };
  const Certificate u8 = with(DType::U8, 0, 255, 0);
  CHECK(u8.accumulator_bound == 255 * 255);
  CHECK(u8.part_bound == 255 * 255);
  CHECK(u8.pair_bound == 255 * 254);
  // 128 is added to signed codes even if none is negative.
  CHECK(with(DType::S8, -128, 127, 0).pair_bound == 255 * 254);
  CHECK(with(DType::S8, 0, 127, 0).pair_bound == 255 * 254);
  CHECK(with(DType::U16, 0, 65535, 0).part_bound == 255 * 255);
  CHECK(with(DType::S16, -32768, 32767, 0).pair_bound == 255 * 254);
  CHECK(with(DType::S16, -32768, 32767, 0).accumulator_bound == 32768 * 255 + 32767 * 128);
  // Products with the zero point are subtracted.
  CHECK(with(DType::U8, 0, 255, 255).accumulator_bound == 255 * 255 + 255 * 1 - 255 * 1);
}

TEST_CASE("certificate: bounds of accumulators as int8 multiplies") {
  const Certificate c{1 << 20, 1000, 1000};
  CHECK(int8_accumulator_bound(c, codes(DType::U8, 0, 255, 7)) == 1000);
  CHECK(int8_accumulator_bound(c, codes(DType::U16, 0, 65535, 0)) == 1000);
  CHECK(int8_accumulator_bound(c, codes(DType::S8, -128, 127, 0)) == 1000 / 128 * 255);
  CHECK(int8_accumulator_bound(c, codes(DType::S8, -7, 5, 0)) == 1000 / 7 * 133);
  CHECK(int8_accumulator_bound(c, codes(DType::S8, 3, 5, 0)) == 1000 / 5 * 133);
  CHECK(int8_accumulator_bound(c, codes(DType::S16, -256, 256, 0)) == 1000 * 129);
  CHECK(int8_accumulator_bound(c, codes(DType::S8, 0, 0, 0)) == INT64_MAX);
}

TEST_CASE("certificate: the fastest path that is exact") {
  using enum ProductPath;
  const IntegerValue u8 = codes(DType::U8, 0, 255, 0);
  const IntegerValue s8 = codes(DType::S8, -127, 127, 0);
  // Always, Pairs, PairsAnd24Bits, Never.
  const auto paths = [&](const Certificate& c, const IntegerValue& x) {
    std::vector<ProductPath> found;
    for (int i = 0; i < 4; ++i) found.push_back(exact_path(c, x, Int8Exactness(i)));
    CHECK(exact_path(c, x) == found[static_cast<size_t>(int8_exactness())]);
    return found;
  };
  using Paths = std::vector<ProductPath>;
  CHECK(paths({1000, 1000, 1000}, u8) == Paths{Int8, Int8, Int8, F32});
  CHECK(paths({100000, 100000, 40000}, u8) == Paths{Int8, F32, F32, F32});
  const int64_t f32 = Certificate::f32_limit;
  CHECK(paths({f32, f32, 32767}, u8) == Paths{Int8, Int8, Int8, F32});
  CHECK(paths({f32, f32 + 1, 32767}, u8) == Paths{Int8, Int8, Plain, Plain});
  CHECK(paths({f32, f32 + 1, 32768}, u8) == Paths{Int8, Plain, Plain, Plain});
  // 128 is added to signed codes, so their accumulators reach 2^24 earlier.
  CHECK(paths({f32, f32 / 255 * 127, 32767}, s8) == Paths{Int8, Int8, Int8, F32});
  CHECK(paths({f32, f32 / 255 * 127 + 127, 32767}, s8) == Paths{Int8, Int8, F32, F32});
  const Certificate huge{int64_t{1} << 40, int64_t{1} << 31, 100};
  CHECK(paths(huge, u8) == Paths{Plain, Plain, Plain, Plain});
  CHECK(!huge.fits_s32());
  const Certificate last{Certificate::s32_limit, Certificate::f32_limit,
                         Certificate::s16_limit};
  CHECK((last.fits_s32() && last.exact_in_f32() && last.exact_in_pairs()));
  const Certificate beyond{last.accumulator_bound + 1, last.part_bound + 1,
                           last.pair_bound + 1};
  CHECK((!beyond.fits_s32() && !beyond.exact_in_f32() && !beyond.exact_in_pairs()));
}

TEST_CASE("certificate: texts") {
  CHECK(
      to_string(Certificate{1000, 500, 0}) ==
      "accumulators 1000 of 2147483647 (x2.15e+06), parts 500 of 16777215 (x3.36e+04), pairs 0 of 32767");
  const IntegerValue x = codes(DType::U8, 0, 255, 0);
  const std::string isa(int8_isa());
  const auto text = [&](int64_t bound, Int8Exactness int8) {
    return explain_path({bound, bound, bound}, x, int8);
  };
  CHECK(text(1, Int8Exactness::Always) == "int8, added in 32 bits by " + isa);
  CHECK(text(1, Int8Exactness::Pairs) ==
        "int8 on " + isa + "; 16-bit sums of pairs are proven to fit");
  CHECK(text(1, Int8Exactness::PairsAnd24Bits) ==
        "int8 on " + isa + "; 16-bit sums of pairs and 24-bit accumulators are proven to fit");
  CHECK(text(40000, Int8Exactness::Pairs) ==
        "f32 on codes, proven to fit 24 bits; int8 on " + isa + " would not be exact");
  const int64_t huge = int64_t{1} << 40;
  CHECK(text(huge, Int8Exactness::Always) ==
        "plain loops; neither int8 on " + isa + " nor f32 would be exact");
  CHECK(explain_path({1, 1, 1}, x) == text(1, int8_exactness()));
}
