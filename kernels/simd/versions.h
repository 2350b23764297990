// Instruction sets: one source, three compiled versions, equal bits from each.
//
// A kernel body is a captureless lambda over pointers and extents. `simd::best` compiles it for
// the baseline, AVX2 and AVX-512 by `target` attributes within one translation unit, so code
// compiled for newer processors cannot leak into code that older ones run. The versions give
// equal bits because every body is plain IEEE arithmetic, compiled without contraction, and
// every reduction fixes its order by a fixed number of lanes.
#pragma once

#include <type_traits>

#include "qtape/core/isa.h"

namespace qtape::kernels::simd {

// Flattening allows a body to be vectorised for its target; without optimisation it only slows
// down the sanitizer build.
#if defined(__x86_64__) && defined(__GNUC__) && defined(__OPTIMIZE__)
#define QTAPE_HAS_ISA_VERSIONS 1
#define QTAPE_AVX2 __attribute__((target("avx2"), flatten, noinline))
#if defined(__clang__)
#define QTAPE_AVX512_TARGET "avx512f,avx512bw,avx512dq,avx512vl"
#else
#define QTAPE_AVX512_TARGET "avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512"
#endif
#define QTAPE_AVX512 __attribute__((target(QTAPE_AVX512_TARGET), flatten, noinline))
#else
#define QTAPE_HAS_ISA_VERSIONS 0
#define QTAPE_AVX2
#define QTAPE_AVX512
#endif

template <class Body, class... Args>
struct Versions {
  static void baseline(Args... args) { Body{}(args...); }
  QTAPE_AVX2 static void avx2(Args... args) { Body{}(args...); }
  QTAPE_AVX512 static void avx512(Args... args) { Body{}(args...); }
};

/// Version of `body` for `isa()` as a plain function pointer: `best<const float*, float*,
/// int64_t>([](const float* x, float* y, int64_t n) { ... })`.
template <class... Args, class Body>
auto best(Body) -> void (*)(Args...) {
  [[maybe_unused]] const Isa set = isa();  // refuses an unknown QTAPE_ISA on all processors
#if QTAPE_HAS_ISA_VERSIONS
  switch (set) {
    case Isa::Avx512:
      return &Versions<Body, Args...>::avx512;
    case Isa::Avx2:
      return &Versions<Body, Args...>::avx2;
    case Isa::Baseline:
      break;
  }
#endif
  return &Versions<Body, Args...>::baseline;
}

/// Version of a body over tensors of T. For f64 only the baseline is compiled: f64 serves to
/// check gradients, and its loops would take longer to compile than to run.
template <class T, class... Args, class Body>
auto best_for(Body body) -> void (*)(Args...) {
  if constexpr (std::is_same_v<T, double>) {
    return &Versions<Body, Args...>::baseline;
  } else {
    return best<Args...>(body);
  }
}

}  // namespace qtape::kernels::simd
