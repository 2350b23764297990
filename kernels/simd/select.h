// Selection by bit masks. Conditions would become branches, especially if several are the same
// for all elements, and GCC 12 would not vectorise the loop.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

namespace qtape::kernels {

/// A mask with all bits set or none.
template <class T>
using Mask = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;

template <class T>
inline Mask<T> mask_of(bool condition) {
  return Mask<T>{0} - static_cast<Mask<T>>(condition);
}
/// `value` if the mask is set, else +0.
template <class T>
inline T where(Mask<T> mask, T value) {
  return std::bit_cast<T>(std::bit_cast<Mask<T>>(value) & mask);
}
/// `a` if the mask is set, else `b`.
template <class T>
inline T either(Mask<T> mask, T a, T b) {
  return std::bit_cast<T>((std::bit_cast<Mask<T>>(a) & mask) |
                          (std::bit_cast<Mask<T>>(b) & ~mask));
}

}  // namespace qtape::kernels
