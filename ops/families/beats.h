// Comparison of maxima: NaN wins over numbers, and the first of equals wins.
#pragma once

namespace qtape {

/// Sets `better` if `x` replaces `best`. Of vectors, for each element.
template <class T, class Mask>
inline void compare_maxima(const T& x, const T& best, Mask& better) {
  better = (x > best) | ((x != x) & (best == best));
}

/// True if `x` replaces `best`.
template <class T>
inline bool beats(T x, T best) {
  bool better = false;
  compare_maxima(x, best, better);
  return better;
}

}  // namespace qtape
