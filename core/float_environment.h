// FloatEnvironment: the floating-point settings of a thread that all results assume.
#pragma once

#include <cfenv>

namespace qtape {

/// While it exists, operations of this thread round to nearest and keep subnormal numbers. A
/// program may have other settings: GCC before version 13 links -ffast-math with code that
/// flushes subnormal numbers to 0. The destructor restores them.
class FloatEnvironment {
 public:
  FloatEnvironment() noexcept;
  FloatEnvironment(const FloatEnvironment&) = delete;
  FloatEnvironment& operator=(const FloatEnvironment&) = delete;
  ~FloatEnvironment();

 private:
  bool changed_;
  std::fenv_t before_;  // if changed_
};

}  // namespace qtape
