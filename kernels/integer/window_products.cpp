#include "qtape/kernels/integer/window_products.h"

#include <algorithm>
#include <array>
#include <utility>

#include "qtape/kernels/integer/code_products.h"
#include "qtape/kernels/integer/window_block.h"
#include "qtape/kernels/simd/threads.h"
#if defined(__x86_64__)
#include "qtape/kernels/integer/window_loops_avx.h"
#elif defined(__aarch64__)
#include "qtape/kernels/integer/window_loops_neon.h"
#endif

namespace qtape::kernels {
namespace {

#if QTAPE_HAS_CODE_PRODUCTS

/// Loops of blocks with 1, 2, ... points and `vectors` vectors of outputs.
template <class Code, int vectors, size_t... p>
constexpr auto loops_of(std::index_sequence<p...>) {
  return std::array<WindowLoop<Code>, sizeof...(p)>{
      &WindowRegisters<Code>::template loop<static_cast<int>(p) + 1, vectors>...};
}
template <class Code, int vectors>
constexpr auto block_loops =
    loops_of<Code, vectors>(std::make_index_sequence<
                            static_cast<size_t>(WindowRegisters<Code>::points[vectors - 1])>());

/// Runs `points` windows, divided into blocks of nearly equal size.
template <class Code, int vectors>
void run_points(WindowBlock<Code> b, int64_t points) {
  constexpr int64_t most = WindowRegisters<Code>::points[vectors - 1];
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
template <class Code, int vectors>
void run_points(WindowBlock<Code>, int64_t) {}

#endif

template <class Code>
constexpr int64_t lanes = WindowRegisters<Code>::lanes;

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
  WindowBlock<Code> b{.x = x,
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

template class WindowProducts<ByteCode>;
template class WindowProducts<int16_t>;

}  // namespace qtape::kernels
