// Move assignment by the move constructor.
#pragma once

#include <memory>
#include <utility>

namespace qtape {

/// Moves `from` to `to`, for move assignments. Unlike the defaulted assignment of a class with
/// a std::vector, it leaves the value unchanged if both are the same object.
template <class T>
T& move_to(T& to, T&& from) noexcept {
  if (&to == &from) return to;
  std::destroy_at(&to);
  return *std::construct_at(&to, std::move(from));
}

}  // namespace qtape
