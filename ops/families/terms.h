// Weighted sums of elements along two axes, of which each index of the result names its terms.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "qtape/kernels/simd/vectorize.h"
#include "qtape/kernels/simd/versions.h"
#include "qtape/ops/core/op.h"
#include "qtape/ops/families/pool_kernels.h"

namespace qtape {

/// The terms of each index of the result along an axis, in their order.
struct AxisTerms {
  std::vector<int64_t> first = {0};  ///< of each index; then the number of all
  std::vector<int64_t> index = {};   ///< of the operand
  std::vector<int64_t> weight = {};

  int64_t size() const { return std::ssize(first) - 1; }
  int64_t begin(int64_t i) const { return first[static_cast<size_t>(i)]; }
  int64_t end(int64_t i) const { return first[static_cast<size_t>(i + 1)]; }
  int64_t from(int64_t k) const { return index[static_cast<size_t>(k)]; }
  int64_t times(int64_t k) const { return weight[static_cast<size_t>(k)]; }
  /// Adds a term of the last index.
  void add(int64_t from, int64_t by) {
    index.push_back(from);
    weight.push_back(by);
  }
  /// Ends the terms of the last index.
  void close() { first.push_back(std::ssize(index)); }
  /// Returns the terms of an axis of extent 1 that stays.
  static AxisTerms one() { return {{0, 1}, {0}, {1}}; }
};

/// Returns the terms of the gradient: for each of `extent` indices of the operand the results
/// that read it, in their order.
inline AxisTerms turned(const AxisTerms& terms, int64_t extent) {
  AxisTerms back{.first = std::vector<int64_t>(static_cast<size_t>(extent) + 1)};
  for (const int64_t from : terms.index) ++back.first[static_cast<size_t>(from) + 1];
  for (size_t i = 1; i < back.first.size(); ++i) back.first[i] += back.first[i - 1];
  back.index.resize(terms.index.size());
  back.weight.resize(terms.index.size());
  std::vector<int64_t> next = back.first;
  for (int64_t i = 0; i < terms.size(); ++i) {
    for (int64_t k = terms.begin(i); k < terms.end(i); ++k) {
      const auto at = static_cast<size_t>(next[static_cast<size_t>(terms.from(k))]++);
      back.index[at] = i;
      back.weight[at] = terms.times(k);
    }
  }
  return back;
}

/// Sums of an operand [images, h, w, channels], each divided by `divisor`.
struct TermSums {
  int64_t images = 0;
  int64_t channels = 0;
  AxisTerms h;
  AxisTerms w;
  int64_t height = 1;  ///< of the operand
  int64_t width = 1;
  double divisor = 1;

  int64_t rows() const { return images * h.size(); }
};

namespace detail {

/// Channels that are summed at once.
constexpr int64_t term_block = 128;

/// Computes rows [begin, end) of the result, in double.
template <class T, bool accumulate>
auto term_loop() {
  using namespace kernels;
  return simd::best_for<T, const TermSums*, const T*, T*, int64_t, int64_t>(
      [](const TermSums* s, const T* x, T* y, int64_t begin, int64_t end) {
        const int64_t n = s->channels;
        std::array<double, term_block> sums;
        for (int64_t r = begin; r < end; ++r) {
          const int64_t i = r % s->h.size();
          const T* image = x + r / s->h.size() * s->height * s->width * n;
          for (int64_t j = 0; j < s->w.size(); ++j) {
            T* to = y + (r * s->w.size() + j) * n;
            for (int64_t c0 = 0; c0 < n; c0 += term_block) {
              const int64_t count = std::min(term_block, n - c0);
              std::fill_n(sums.data(), count, 0.0);
              for (int64_t p = s->h.begin(i); p < s->h.end(i); ++p) {
                for (int64_t q = s->w.begin(j); q < s->w.end(j); ++q) {
                  const double by =
                      static_cast<double>(s->h.times(p)) * static_cast<double>(s->w.times(q));
                  const T* from = image + (s->h.from(p) * s->width + s->w.from(q)) * n + c0;
                  QTAPE_INDEPENDENT
                  for (int64_t c = 0; c < count; ++c) {
                    sums[static_cast<size_t>(c)] += by * double{from[c]};
                  }
                }
              }
              QTAPE_INDEPENDENT
              for (int64_t c = 0; c < count; ++c) {
                const T sum = static_cast<T>(sums[static_cast<size_t>(c)] / s->divisor);
                to[c0 + c] = accumulate ? to[c0 + c] + sum : sum;
              }
            }
          }
        }
      });
}

}  // namespace detail

/// y = the sums of x, or y += these.
template <class T>
Kernel bind_term_sums(TermSums sums, const T* x, T* y, bool accumulate, int threads) {
  if (sums.rows() * sums.w.size() * sums.channels == 0) return {};
  const auto loop = accumulate ? detail::term_loop<T, true>() : detail::term_loop<T, false>();
  const int64_t grain = row_grain(sums.w.size() * sums.channels, 4);
  return [sums = std::move(sums), loop, grain, x, y, threads](const Step&) {
    kernels::parallel_for(threads, sums.rows(), 1, grain,
                          [&](int64_t begin, int64_t end) { loop(&sums, x, y, begin, end); });
  };
}

}  // namespace qtape
