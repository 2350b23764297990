// Held: a part of a movable class that stays in place when its owner moves.
#pragma once

#include <memory>
#include <utility>

#include "qtape/core/error.h"

namespace qtape {

/// Owns a T, or nothing before it is created and after a move. Access then throws GraphError,
/// which names `holder`, the owner, such as "session".
template <class T>
class Held {
 public:
  Held(const char* holder, std::unique_ptr<T> part) : holder_(holder), part_(std::move(part)) {}

  T& operator*() { return checked(); }
  const T& operator*() const { return checked(); }
  T* operator->() { return &checked(); }
  const T* operator->() const { return &checked(); }

 private:
  T& checked() const {
    check(part_ != nullptr, "this {0} was moved from; use the {0} that it was moved to",
          holder_);
    return *part_;
  }

  const char* holder_;
  std::unique_ptr<T> part_;
};

}  // namespace qtape
