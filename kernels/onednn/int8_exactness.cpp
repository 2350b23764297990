#include "qtape/kernels/onednn/int8_exactness.h"

#include <algorithm>
#include <vector>

#include "qtape/core/error.h"
#include "qtape/kernels/onednn/integer_gemm.h"
#include "qtape/kernels/onednn/onednn.h"
#include "qtape/kernels/simd/threads.h"

namespace qtape::kernels {
namespace {

/// Exactness as measured with oneDNN 2.6.3 and 3.7.2, and assumed for other versions.
Int8Exactness known_exactness() {
  if (onednn_has(dnnl_cpu_isa_avx512_core_vnni) || onednn_has(dnnl_cpu_isa_avx2_vnni)) {
    return Int8Exactness::Always;
  }
  // Below AVX-512, oneDNN 3 converts accumulators to f32 and back.
  if (dnnl_version()->major >= 3 && !onednn_has(dnnl_cpu_isa_avx512_core)) {
    return Int8Exactness::PairsAnd24Bits;
  }
  return Int8Exactness::Pairs;
}

/// A product of codes that are 255 except for the last of a row. Weights are `high` in even
/// channels and `low` in odd ones; the last weight of a channel is nearer to 0 by 1. Weights
/// after `terms` are 0.
struct Trial {
  int64_t terms;
  int32_t low;
  int32_t high;
};

constexpr int64_t trial_terms = 1100;
// Pairs are at most 255 * 128 = 2^15 - 128.
constexpr Trial within_both{1024, -64, 64};          // just below 2^24
constexpr Trial within_pairs{trial_terms, -64, 64};  // odd sums beyond 2^24: not f32
constexpr Trial full_range{trial_terms, -128, 127};

struct TrialExtents {
  int64_t rows, n;
};
// Matrix-vector products, few rows and many rows have different kernels, and so does AMX.
constexpr std::array<TrialExtents, 4> trial_extents = {{{1, 1}, {1, 17}, {33, 1}, {20, 33}}};

int32_t weight_of(const Trial& t, int64_t channel) { return channel % 2 == 0 ? t.high : t.low; }
int32_t last_weight_of(const Trial& t, int64_t channel) {
  return channel % 2 == 0 ? t.high - 1 : t.low + 1;
}
int32_t last_code_of(int64_t row) { return static_cast<int32_t>(255 - 2 * (row % 32)); }

bool is_exact(const Trial& t, const TrialExtents& e, Int8Weights layout) {
  constexpr int64_t k = trial_terms;
  std::vector<uint8_t> x(static_cast<size_t>(e.rows * k), 255);
  std::vector<int8_t> w(static_cast<size_t>(e.n * k), 0);
  std::vector<int8_t> turned(w.size());
  std::vector<int32_t> acc(static_cast<size_t>(e.rows * e.n), 0);
  for (int64_t r = 0; r < e.rows; ++r) {
    x[static_cast<size_t>(r * k + t.terms - 1)] = static_cast<uint8_t>(last_code_of(r));
  }
  for (int64_t c = 0; c < e.n; ++c) {
    std::fill_n(w.begin() + c * k, t.terms - 1, static_cast<int8_t>(weight_of(t, c)));
    w[static_cast<size_t>(c * k + t.terms - 1)] = static_cast<int8_t>(last_weight_of(t, c));
    for (int64_t i = 0; i < k; ++i)
      turned[static_cast<size_t>(i * e.n + c)] = w[static_cast<size_t>(c * k + i)];
  }
  const ComputingThread serial;
  Int8Product product(e.n, k, DType::U8,
                      layout == Int8Weights::Columns ? turned.data() : w.data(), layout);
  if (!product.bind(e.rows, x.data(), acc.data())()) return false;
  for (int64_t r = 0; r < e.rows; ++r) {
    for (int64_t c = 0; c < e.n; ++c) {
      const int64_t sum = (t.terms - 1) * 255 * weight_of(t, c) +
                          int64_t{last_code_of(r)} * last_weight_of(t, c);
      if (acc[static_cast<size_t>(r * e.n + c)] != sum) return false;
    }
  }
  return true;
}

}  // namespace

Int8Exactness tried_int8_exactness() try {
  const auto all_exact = [](const Trial& t) {
    return std::ranges::all_of(trial_extents, [&](const TrialExtents& e) {
      return is_exact(t, e, Int8Weights::Constant) && is_exact(t, e, Int8Weights::Rows) &&
             is_exact(t, e, Int8Weights::Columns);
    });
  };
  if (!all_exact(within_both)) return Int8Exactness::Never;
  if (!all_exact(within_pairs)) return Int8Exactness::PairsAnd24Bits;
  return all_exact(full_range) ? Int8Exactness::Always : Int8Exactness::Pairs;
} catch (const GraphError&) {
  return Int8Exactness::Never;  // oneDNN does not support this product
}

Int8Exactness int8_exactness() {
  static const Int8Exactness exactness = std::max(known_exactness(), tried_int8_exactness());
  return exactness;
}

std::string_view int8_isa() {
  switch (dnnl_get_effective_cpu_isa()) {
    case dnnl_cpu_isa_sse41:
      return "sse41";
    case dnnl_cpu_isa_avx:
      return "avx";
    case dnnl_cpu_isa_avx2:
      return "avx2";
    case dnnl_cpu_isa_avx2_vnni:
      return "avx2_vnni";
    case dnnl_cpu_isa_avx512_core:
      return "avx512_core";
    case dnnl_cpu_isa_avx512_core_vnni:
      return "avx512_core_vnni";
    case dnnl_cpu_isa_avx512_core_bf16:
      return "avx512_core_bf16";
#if DNNL_VERSION_MAJOR >= 3
    case dnnl_cpu_isa_avx512_core_fp16:
      return "avx512_core_fp16";
#endif
    case dnnl_cpu_isa_avx512_core_amx:
      return "avx512_core_amx";
    default:
      return "this processor";
  }
}

}  // namespace qtape::kernels
