// Vectors of the compilers, for loops that they do not vectorise themselves.
#pragma once

#include <cstdint>
#include <cstring>

namespace qtape {

template <class E, int64_t count>
struct VectorOf {
  typedef E Type __attribute__((vector_size(count * sizeof(E))));
};
/// `count` values of `E`.
template <class E, int64_t count>
using Vector = typename VectorOf<E, count>::Type;

template <class V, class E>
inline void load(const E* from, V& to) {
  std::memcpy(&to, from, sizeof to);
}

}  // namespace qtape
