// Bit for bit comparison of numbers, where a failure must name the input.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>

namespace qtape::test {

/// Finds the first pair of numbers with different bits. NaN agrees with NaN.
class FirstDifference {
 public:
  /// `what` names the compared result, if there are several.
  template <class T>
  void compare(T got, T expected, const char* what = "") {
    const int64_t index = compared_++;
    if (same(got, expected) || differing_++ > 0) return;
    first_ = fmt::format("{}[{}] is {} = {:#x}, expected {} = {:#x}", what, index, got,
                         bits_of(got), expected, bits_of(expected));
  }

  /// Returns the first difference and the number of all; empty if there is none. Use:
  /// CHECK(found.text() == "").
  std::string text() const {
    return differing_ == 0 ? ""
                           : fmt::format("{}; {} of {} differ", first_, differing_, compared_);
  }

 private:
  template <class T>
  static uint64_t bits_of(T x) {
    uint64_t bits = 0;
    std::memcpy(&bits, &x, sizeof x);
    return bits;
  }
  template <class T>
  static bool same(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
      if (std::isnan(a) && std::isnan(b)) return true;
    }
    return bits_of(a) == bits_of(b);
  }

  int64_t compared_ = 0;
  int64_t differing_ = 0;
  std::string first_;
};

/// Returns the first difference of two lists, or of their lengths.
template <class Got, class Expected>
std::string difference(const Got& got, const Expected& expected) {
  if (got.size() != expected.size()) {
    return fmt::format("{} numbers, expected {}", got.size(), expected.size());
  }
  FirstDifference found;
  for (size_t i = 0; i < got.size(); ++i) found.compare(got[i], expected[i]);
  return found.text();
}

}  // namespace qtape::test
