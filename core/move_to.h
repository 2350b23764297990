// Move assignment by the move constructor.
#pragma once

#include <memory>
#include <utility>

namespace qtape {

/// Moves `from` to `to`, by which `to` keeps its value if both are the same object, as the
/// defaulted assignment of a class with a std::vector does not. For move assignments.
template <class T>
T& move_to(T& to, T&& from) noexcept {
  if (&to == &from) return to;
  std::destroy_at(&to);
  return *std::construct_at(&to, std::move(from));
}

}  // namespace qtape
