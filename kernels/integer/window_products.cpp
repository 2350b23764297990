#include "qtape/kernels/integer/window_products.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "qtape/kernels/integer/code_products.h"
#include "qtape/kernels/simd/threads.h"

namespace qtape::kernels {
namespace {

/// Operands of the loop over a block of points and outputs.
template <class Code>
struct Block {
  const Code* x;
  int64_t step;
  const int64_t* runs;
  int64_t run_count;
  int64_t groups;
  const std::byte* weights;
  int32_t* y;
  int64_t n;     // distance between rows of y
  int64_t last;  // outputs in the last vector of the block
};

template <class Code>
using BlockLoop = void (*)(const Block<Code>&);

/// Terms that are multiplied at once: as many codes as the 32-bit lane of an output holds.
template <class Code>
constexpr int64_t terms_of_group = 4 / sizeof(Code);

template <class Code>
int32_t group_at(const Code* x) {
  int32_t group = 0;
  std::memcpy(&group, x, sizeof group);
  return group;
}

#if QTAPE_HAS_CODE_PRODUCTS

#define QTAPE_TARGET_BYTES __attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni")))
#define QTAPE_INLINE __attribute__((always_inline)) inline
#define QTAPE_TARGET_WORDS __attribute__((target("avx2")))

/// Number of points and of output vectors that stay in registers, and the loops over them.
template <class Code>
struct Registers;

template <>
struct Registers<uint8_t> {
  static constexpr int64_t lanes = 16;
  /// Points of a block with one vector and with two. GCC 12 spills more than 16 accumulators.
  static constexpr std::array<int, 2> points = {14, 7};

  /// Not a loop: GCC 12 would turn it into a call of memset and keep the accumulators in
  /// memory.
  template <int... i>
  QTAPE_TARGET_BYTES QTAPE_INLINE static void clear(__m512i* acc,
                                                    std::integer_sequence<int, i...>) {
    ((acc[i] = _mm512_setzero_si512()), ...);
  }
  template <int points, int vectors>
  QTAPE_TARGET_BYTES static void loop(const Block<uint8_t>& b) {
    __m512i acc[points * vectors];
    clear(acc, std::make_integer_sequence<int, points * vectors>{});
    const std::byte* weights = b.weights;
    for (int64_t r = 0; r < b.run_count; ++r) {
      const uint8_t* x = b.x + b.runs[r];
      for (int64_t g = 0; g < b.groups; ++g, x += 4) {
        __m512i w[vectors];
        for (int v = 0; v < vectors; ++v, weights += 64) w[v] = _mm512_load_si512(weights);
        for (int p = 0; p < points; ++p) {
          const __m512i codes = _mm512_set1_epi32(group_at(x + p * b.step));
          for (int v = 0; v < vectors; ++v) {
            acc[p * vectors + v] = _mm512_dpbusd_epi32(acc[p * vectors + v], codes, w[v]);
          }
        }
      }
    }
    const auto last = static_cast<__mmask16>((1U << b.last) - 1);
    for (int p = 0; p < points; ++p) {
      for (int v = 0; v < vectors; ++v) {
        const auto mask = v + 1 < vectors ? static_cast<__mmask16>(0xffff) : last;
        _mm512_mask_storeu_epi32(b.y + p * b.n + v * lanes, mask, acc[p * vectors + v]);
      }
    }
  }
};

template <>
struct Registers<int16_t> {
  static constexpr int64_t lanes = 8;
  static constexpr std::array<int, 2> points = {8, 5};

  template <int... i>
  QTAPE_TARGET_WORDS QTAPE_INLINE static void clear(__m256i* acc,
                                                    std::integer_sequence<int, i...>) {
    ((acc[i] = _mm256_setzero_si256()), ...);
  }
  template <int points, int vectors>
  QTAPE_TARGET_WORDS static void loop(const Block<int16_t>& b) {
    __m256i acc[points * vectors];
    clear(acc, std::make_integer_sequence<int, points * vectors>{});
    const std::byte* weights = b.weights;
    for (int64_t r = 0; r < b.run_count; ++r) {
      const int16_t* x = b.x + b.runs[r];
      for (int64_t g = 0; g < b.groups; ++g, x += 2) {
        __m256i w[vectors];
        for (int v = 0; v < vectors; ++v, weights += 32) {
          w[v] = _mm256_load_si256(reinterpret_cast<const __m256i*>(weights));
        }
        for (int p = 0; p < points; ++p) {
          const __m256i codes = _mm256_set1_epi32(group_at(x + p * b.step));
          for (int v = 0; v < vectors; ++v) {
            acc[p * vectors + v] =
                _mm256_add_epi32(acc[p * vectors + v], _mm256_madd_epi16(codes, w[v]));
          }
        }
      }
    }
    alignas(32) std::array<int32_t, lanes> rest;
    for (int p = 0; p < points; ++p) {
      for (int v = 0; v < vectors; ++v) {
        int32_t* y = b.y + p * b.n + v * lanes;
        if (v + 1 < vectors || b.last == lanes) {
          _mm256_storeu_si256(reinterpret_cast<__m256i*>(y), acc[p * vectors + v]);
        } else {
          _mm256_store_si256(reinterpret_cast<__m256i*>(rest.data()), acc[p * vectors + v]);
          std::copy_n(rest.data(), b.last, y);
        }
      }
    }
  }
};

/// Loops of blocks with 1, 2, ... points and `vectors` vectors of outputs.
template <class Code, int vectors, size_t... p>
constexpr auto loops_of(std::index_sequence<p...>) {
  return std::array<BlockLoop<Code>, sizeof...(p)>{
      &Registers<Code>::template loop<static_cast<int>(p) + 1, vectors>...};
}
template <class Code, int vectors>
constexpr auto block_loops = loops_of<Code, vectors>(
    std::make_index_sequence<static_cast<size_t>(Registers<Code>::points[vectors - 1])>());

/// Runs `points` windows, divided into blocks of nearly equal size.
template <class Code, int vectors>
void run_points(Block<Code> b, int64_t points) {
  constexpr int64_t most = Registers<Code>::points[vectors - 1];
  const int64_t blocks = (points + most - 1) / most;
  for (int64_t i = 0; i < blocks; ++i) {
    const int64_t count = points * (i + 1) / blocks - points * i / blocks;
    block_loops<Code, vectors>[static_cast<size_t>(count - 1)](b);
    b.x += count * b.step;
    b.y += count * b.n;
  }
}

#else

/// Never called, because code_products() is None.
template <class Code>
struct Registers {
  static constexpr int64_t lanes = 1;
};
template <class Code, int vectors>
void run_points(Block<Code>, int64_t) {}

#endif

template <class Code>
constexpr int64_t lanes = Registers<Code>::lanes;

/// Number of output vectors computed together from output `first` on: two, or one at the end.
template <class Code>
int64_t vectors_at(int64_t first, int64_t n) {
  return n - first > lanes<Code> ? 2 : 1;
}

}  // namespace

template <class Code>
WindowProducts<Code>::WindowProducts(int64_t n, std::span<const int64_t> runs, int64_t length)
    : n_(n),
      length_(length),
      groups_((length + terms_of_group<Code> - 1) / terms_of_group<Code>),
      runs_(runs.begin(), runs.end()),
      weights_((n + lanes<Code> - 1) / lanes<Code> * lanes<Code> * std::ssize(runs_) * groups_ *
               4) {}

template <class Code>
void WindowProducts<Code>::load(const int8_t* w, bool rows, int threads) {
  using Weight = std::conditional_t<sizeof(Code) == 1, int8_t, int16_t>;
  constexpr int64_t group = terms_of_group<Code>;
  constexpr int64_t most = 2 * lanes<Code>;  // outputs of a block
  const int64_t terms = std::ssize(runs_) * length_;
  const int64_t output_stride = rows ? terms : 1;
  const int64_t term_stride = rows ? 1 : n_;
  const int64_t taken = std::ssize(runs_) * groups_ * group;  // terms with padding of groups
  const auto load_block = [&](int64_t first) {
    auto* to = reinterpret_cast<Weight*>(weights_.data()) + first * taken;
    const int64_t outputs = vectors_at<Code>(first, n_) * lanes<Code>;
    for (int64_t r = 0; r < std::ssize(runs_); ++r) {
      for (int64_t i = 0; i < groups_ * group; i += group, to += outputs * group) {
        const int64_t count = std::min(group, length_ - i);
        for (int64_t o = 0; o < std::min(outputs, n_ - first); ++o) {
          const int8_t* from =
              w + (first + o) * output_stride + (r * length_ + i) * term_stride;
          for (int64_t j = 0; j < count; ++j) to[o * group + j] = from[j * term_stride];
        }
      }
    }
  };
  const int64_t grain =
      std::max<int64_t>(1, pointwise_grain / std::max<int64_t>(1, most * taken));
  parallel_for(threads, (n_ + most - 1) / most, 1, grain, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) load_block(block * most);
  });
}

template <class Code>
void WindowProducts<Code>::run(const Code* x, int64_t step, int64_t points, int32_t* y) const {
  Block<Code> b{.x = x,
                .step = step,
                .runs = runs_.data(),
                .run_count = std::ssize(runs_),
                .groups = groups_,
                .weights = weights_.data(),
                .y = y,
                .n = n_,
                .last = 0};
  for (int64_t first = 0; first < n_;) {
    const int64_t vectors = vectors_at<Code>(first, n_);
    const int64_t outputs = vectors * lanes<Code>;
    b.last = std::min(lanes<Code>, n_ - first - (vectors - 1) * lanes<Code>);
    if (vectors == 2) {
      run_points<Code, 2>(b, points);
    } else {
      run_points<Code, 1>(b, points);
    }
    b.weights += outputs * std::ssize(runs_) * groups_ * 4;
    b.y += outputs;
    first += outputs;
  }
}

template class WindowProducts<uint8_t>;
template class WindowProducts<int16_t>;

}  // namespace qtape::kernels
