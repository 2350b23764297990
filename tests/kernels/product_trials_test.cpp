// Known products find a wrong accumulator anywhere, and none in the kernels of this processor.
#include "qtape/kernels/onednn/product_trials.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "qtape/kernels/integer/code_trials.h"
#include "qtape/kernels/onednn/int8_exactness.h"

using namespace qtape;
using namespace qtape::kernels;

namespace {

/// Multiplies by plain loops.
bool multiply(const CodeProduct& p, const KnownOperands& known, std::span<int32_t> acc) {
  const bool columns = p.weights == Int8Weights::Columns;
  for (int64_t r = 0; r < p.rows; ++r) {
    for (int64_t c = 0; c < p.n; ++c) {
      int32_t sum = 0;
      for (int64_t i = 0; i < p.k; ++i) {
        sum += int32_t{known.x[static_cast<size_t>(r * p.k + i)]} *
               known.w[static_cast<size_t>(columns ? i * p.n + c : c * p.k + i)];
      }
      acc[static_cast<size_t>(r * p.n + c)] = sum;
    }
  }
  return true;
}

const std::vector<CodeProduct> products = {{1, 1, 1, DType::U8, Int8Weights::Constant},
                                           {3, 5, 7, DType::S8, Int8Weights::Rows},
                                           {16, 10, 84, DType::U8, Int8Weights::Columns},
                                           {33, 17, 126, DType::S8, Int8Weights::Constant},
                                           {20, 1, 1100, DType::U8, Int8Weights::Constant},
                                           {1, 64, 800, DType::U8, Int8Weights::Rows}};

}  // namespace

TEST_CASE("product trials: exact products pass") {
  for (const CodeProduct& p : products) {
    CHECK(known_product_error(p, [&](const KnownOperands& known, std::span<int32_t> acc) {
            return multiply(p, known, acc);
          }) == "");
  }
}

TEST_CASE("product trials: a wrong accumulator shows in any place and in any bit") {
  for (const CodeProduct& p : products) {
    const int64_t accumulators = p.rows * p.n;
    for (int64_t at = 0; at < accumulators; at += std::max<int64_t>(1, accumulators / 13)) {
      for (int bit : {0, 1, 15, 16, 24, 31}) {
        const std::string error =
            known_product_error(p, [&](const KnownOperands& known, std::span<int32_t> acc) {
              multiply(p, known, acc);
              auto& wrong = acc[static_cast<size_t>(at)];
              wrong = static_cast<int32_t>(static_cast<uint32_t>(wrong) ^ (1U << bit));
              return true;
            });
        CHECK(error == "a sum of row " + std::to_string(at / p.n) + " differs");
      }
    }
  }
}

TEST_CASE("product trials: no sum of known operands exceeds the 24 bits of f32, in any order") {
  for (const int64_t k : {1, 1028, 1029, 5000, 65'793}) {
    CAPTURE(k);
    const CodeProduct p{1, 2, k, DType::U8, Int8Weights::Constant};
    CHECK(known_product_error(p, [&](const KnownOperands& known, std::span<int32_t> acc) {
            for (int64_t c = 0; c < p.n; ++c) {
              int64_t magnitude = 0;
              for (int64_t i = 0; i < k; ++i) {
                const int w = known.w[static_cast<size_t>(c * k + i)];
                CHECK(std::abs(w) <= 64);
                magnitude += std::abs(known.x[static_cast<size_t>(i)] * w);
              }
              CHECK(magnitude <= int64_t{1} << 24);
            }
            return multiply(p, known, acc);
          }) == "");
    CHECK_NOTHROW(require_exact_f32(p));
  }
}

TEST_CASE("product trials: a product without a result is an error") {
  CHECK(known_product_error(products[0], [](const KnownOperands&, std::span<int32_t>) {
          return false;
        }) == "no result");
}

TEST_CASE("product trials: this processor computes known products exactly") {
  for (const CodeProduct& p : products) {
    CHECK_NOTHROW(require_exact_f32(p));
    if (int8_exactness() != Int8Exactness::Never) CHECK_NOTHROW(require_exact_int8(p));
  }
  CHECK_NOTHROW(require_exact_int8({0, 3, 4, DType::U8, Int8Weights::Constant}));
  CHECK_NOTHROW(require_exact_code_products());
}
