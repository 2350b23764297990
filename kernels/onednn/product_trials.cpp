#include "qtape/kernels/onednn/product_trials.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include "qtape/core/error.h"
#include "qtape/core/random.h"
#include "qtape/kernels/onednn/int8_exactness.h"
#include "qtape/kernels/onednn/onednn_build.h"
#include "qtape/kernels/simd/threads.h"

namespace qtape::kernels {
namespace {

/// Upper bound of the magnitudes of weights: sums of pairs fit 16 bits, and sums of up to
/// 65,793 terms 24. Of more terms, random signs keep them far below.
int64_t max_weight(int64_t terms) {
  constexpr int64_t max_in_pairs = 64;
  return std::clamp<int64_t>((int64_t{1} << 24) / (255 * std::max<int64_t>(1, terms)), 1,
                             max_in_pairs);
}

/// Streams of the random numbers of a known product.
enum Stream : uint64_t { codes, weights, multipliers };

int64_t offset_of_weight(const CodeProduct& p, int64_t output, int64_t term) {
  return p.weights == Int8Weights::Columns ? term * p.n + output : output * p.k + term;
}

std::vector<int16_t> known_codes(const CodeProduct& p) {
  const Random random(0, codes);
  const int16_t lowest = p.x == DType::S8 ? -128 : 0;
  std::vector<int16_t> x(static_cast<size_t>(p.rows * p.k));
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<int16_t>(lowest + static_cast<int16_t>(random.bits(i) >> 56));
  }
  return x;
}

std::vector<int8_t> known_weights(const CodeProduct& p) {
  const Random random(0, weights);
  const int64_t most = max_weight(p.k);
  std::vector<int8_t> w(static_cast<size_t>(p.n * p.k));
  for (size_t i = 0; i < w.size(); ++i) {
    const uint64_t drawn = random.below(i, static_cast<uint64_t>(2 * most + 1));
    w[i] = static_cast<int8_t>(static_cast<int64_t>(drawn) - most);
  }
  return w;
}

std::vector<uint32_t> odd_multipliers(int64_t n) {
  const Random random(0, multipliers);
  std::vector<uint32_t> odd;
  for (int64_t c = 0; c < n; ++c) {
    odd.push_back(static_cast<uint32_t>(random.bits(static_cast<uint64_t>(c)) >> 32) | 1U);
  }
  return odd;
}

/// Sums of the weights of each term, weighted by the multipliers of their outputs.
std::vector<uint32_t> weighted_terms(const CodeProduct& p, std::span<const int8_t> w,
                                     std::span<const uint32_t> odd) {
  std::vector<uint32_t> sums(static_cast<size_t>(p.k), 0);
  for (int64_t c = 0; c < p.n; ++c) {
    for (int64_t i = 0; i < p.k; ++i) {
      const int32_t weight = w[static_cast<size_t>(offset_of_weight(p, c, i))];
      sums[static_cast<size_t>(i)] +=
          static_cast<uint32_t>(weight) * odd[static_cast<size_t>(c)];
    }
  }
  return sums;
}

template <class T>
uint32_t weighted_sum(std::span<const T> values, std::span<const uint32_t> weights) {
  uint32_t sum = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    sum += static_cast<uint32_t>(int32_t{values[i]}) * weights[i];
  }
  return sum;
}

bool multiply_int8(const CodeProduct& p, const KnownOperands& known, std::span<int32_t> acc) {
  std::vector<uint8_t> x(known.x.size());
  std::ranges::transform(known.x, x.begin(),
                         [](int16_t code) { return static_cast<uint8_t>(code); });
  Int8Product product(p.n, p.k, p.x, known.w.data(), p.weights);
  const ComputingThread serial;
  const BoundInt8Product bound = product.bind(p.rows, x.data(), acc.data());
  product.load();
  return bound();
}

bool multiply_f32(const CodeProduct& p, const KnownOperands& known, std::span<int32_t> acc) {
  const std::vector<float> x(known.x.begin(), known.x.end());
  const std::vector<float> w(known.w.begin(), known.w.end());
  std::vector<float> sums(acc.size());
  const ComputingThread serial;
  prepare_gemm(
      Gemm{.m = p.rows, .n = p.n, .k = p.k, .transpose_b = p.weights != Int8Weights::Columns},
      x.data(), w.data(), sums.data(), 1)();
  // Beyond 2^24, and for NaN, a sum is not that of the known codes.
  if (!std::ranges::all_of(sums, [](float sum) { return std::abs(sum) <= 0x1p24F; })) {
    return false;
  }
  std::ranges::transform(sums, acc.begin(),
                         [](float sum) { return static_cast<int32_t>(sum); });
  return true;
}

using TriedProduct = bool (*)(const CodeProduct&, const KnownOperands&, std::span<int32_t>);

/// Results of the shapes that were tried, as known_product_error gives them.
class Trials {
 public:
  Trials(std::string_view name, TriedProduct multiply) : name_(name), multiply_(multiply) {}

  void require_exact(const CodeProduct& p) {
    if (p.rows * p.n * p.k == 0) return;
    const std::string& error = error_of(p);
    require<Error>(error.empty(),
                   "oneDNN {} computes a known {} product wrongly on {} (isa {}): [{}, {}] by "
                   "[{}, {}], {}; set DNNL_MAX_CPU_ISA to a lower instruction set",
                   onednn_version(), name_, int8_isa(), onednn_isa(), p.rows, p.k, p.k, p.n,
                   error);
  }

 private:
  const std::string& error_of(const CodeProduct& p) {
    const std::scoped_lock lock(mutex_);
    const auto known = errors_.find(p);
    if (known != errors_.end()) return known->second;
    const auto multiply = [&](const KnownOperands& operands, std::span<int32_t> acc) {
      return multiply_(p, operands, acc);
    };
    return errors_.emplace(p, known_product_error(p, multiply)).first->second;
  }

  std::string_view name_;
  TriedProduct multiply_;
  std::mutex mutex_;
  std::map<CodeProduct, std::string> errors_;
};

}  // namespace

std::string known_product_error(const CodeProduct& p, const Multiply& multiply) {
  const std::vector<int16_t> x = known_codes(p);
  const std::vector<int8_t> w = known_weights(p);
  std::vector<int32_t> acc(static_cast<size_t>(p.rows * p.n), -1);
  if (!multiply({x, w}, acc)) return "no result";
  const std::vector<uint32_t> odd = odd_multipliers(p.n);
  const std::vector<uint32_t> terms = weighted_terms(p, w, odd);
  for (int64_t row = 0; row < p.rows; ++row) {
    const auto codes_of_row =
        std::span(x).subspan(static_cast<size_t>(row * p.k), terms.size());
    const auto sums_of_row = std::span(acc).subspan(static_cast<size_t>(row * p.n), odd.size());
    if (weighted_sum<int16_t>(codes_of_row, terms) != weighted_sum<int32_t>(sums_of_row, odd)) {
      return fmt::format("a sum of row {} differs", row);
    }
  }
  return {};
}

void require_exact_int8(const CodeProduct& product) {
  static Trials trials("int8", multiply_int8);
  trials.require_exact(product);
}

void require_exact_f32(const CodeProduct& product) {
  static Trials trials("f32", multiply_f32);
  trials.require_exact(product);
}

}  // namespace qtape::kernels
