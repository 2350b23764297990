// Loops of the update rules, one per rule, dtype and instruction set. Included only by
// optimizer.cpp.
#pragma once

#include <cmath>
#include <limits>

#include "qtape/kernels/simd/vectorize.h"
#include "qtape/kernels/simd/versions.h"
#include "qtape/optim/update.h"

namespace qtape::detail {

using namespace kernels;

/// Replaces denormal numbers by 0. A moment whose gradient stays 0 decays into denormal numbers
/// and stays there, and each product with one costs about 150 cycles.
template <class T>
inline T without_denormals(T x) {
  return std::fabs(x) < std::numeric_limits<T>::min() ? T{0} : x;
}

template <class T>
UpdateLoop sgd_loop() {
  return simd::best<const UpdateFactors*, const UpdateSpan*>(
      [](const UpdateFactors* factors, const UpdateSpan* span) {
        const auto rate = static_cast<T>(factors->rate);
        const auto decay = static_cast<T>(factors->decay);
        T* p = reinterpret_cast<T*>(span->value);
        const T* dp = reinterpret_cast<const T*>(span->gradient);
        const int64_t n = span->n;
        QTAPE_INDEPENDENT
        for (int64_t i = 0; i < n; ++i) p[i] = p[i] - rate * (dp[i] + decay * p[i]);
      });
}

template <class T, bool nesterov>
UpdateLoop momentum_loop() {
  return simd::best<const UpdateFactors*, const UpdateSpan*>(
      [](const UpdateFactors* factors, const UpdateSpan* span) {
        const auto rate = static_cast<T>(factors->rate);
        const auto decay = static_cast<T>(factors->decay);
        const auto momentum = static_cast<T>(factors->momentum);
        T* p = reinterpret_cast<T*>(span->value);
        T* first = reinterpret_cast<T*>(span->first);
        const T* dp = reinterpret_cast<const T*>(span->gradient);
        const int64_t n = span->n;
        QTAPE_INDEPENDENT
        for (int64_t i = 0; i < n; ++i) {
          const T g = dp[i] + decay * p[i];
          const T m = without_denormals(momentum * first[i] + g);
          first[i] = m;
          p[i] = p[i] - rate * (nesterov ? g + momentum * m : m);
        }
      });
}

/// Adam and AdamW: `keep` is 1 for Adam and `decay` is 0 for AdamW, which changes no bits.
template <class T>
UpdateLoop adam_loop() {
  return simd::best<const UpdateFactors*, const UpdateSpan*>(
      [](const UpdateFactors* factors, const UpdateSpan* span) {
        const auto rate = static_cast<T>(factors->rate);
        const auto keep = static_cast<T>(factors->keep);
        const auto decay = static_cast<T>(factors->decay);
        const auto first_keep = static_cast<T>(factors->momentum);
        const auto first_weight = static_cast<T>(factors->first_weight);
        const auto second_keep = static_cast<T>(factors->second_keep);
        const auto second_weight = static_cast<T>(factors->second_weight);
        const auto root_scale = static_cast<T>(factors->root_scale);
        const auto epsilon = static_cast<T>(factors->epsilon);
        T* p = reinterpret_cast<T*>(span->value);
        T* first = reinterpret_cast<T*>(span->first);
        T* second = reinterpret_cast<T*>(span->second);
        const T* dp = reinterpret_cast<const T*>(span->gradient);
        const int64_t n = span->n;
        QTAPE_INDEPENDENT
        for (int64_t i = 0; i < n; ++i) {
          const T g = dp[i] + decay * p[i];
          const T m = without_denormals(first_keep * first[i] + first_weight * g);
          const T v = without_denormals(second_keep * second[i] + second_weight * g * g);
          first[i] = m;
          second[i] = v;
          p[i] = keep * p[i] - rate * m / (std::sqrt(v) * root_scale + epsilon);
        }
      });
}

template <class T, bool has_momentum>
UpdateLoop rms_prop_loop() {
  return simd::best<const UpdateFactors*, const UpdateSpan*>(
      [](const UpdateFactors* factors, const UpdateSpan* span) {
        const auto rate = static_cast<T>(factors->rate);
        const auto decay = static_cast<T>(factors->decay);
        const auto momentum = static_cast<T>(factors->momentum);
        const auto second_keep = static_cast<T>(factors->second_keep);
        const auto second_weight = static_cast<T>(factors->second_weight);
        const auto epsilon = static_cast<T>(factors->epsilon);
        T* p = reinterpret_cast<T*>(span->value);
        T* first = reinterpret_cast<T*>(span->first);
        T* second = reinterpret_cast<T*>(span->second);
        const T* dp = reinterpret_cast<const T*>(span->gradient);
        const int64_t n = span->n;
        QTAPE_INDEPENDENT
        for (int64_t i = 0; i < n; ++i) {
          const T g = dp[i] + decay * p[i];
          const T v = without_denormals(second_keep * second[i] + second_weight * g * g);
          second[i] = v;
          T change = g / (std::sqrt(v) + epsilon);
          if constexpr (has_momentum) {
            change = without_denormals(momentum * first[i] + change);
            first[i] = change;
          }
          p[i] = p[i] - rate * change;
        }
      });
}

}  // namespace qtape::detail
