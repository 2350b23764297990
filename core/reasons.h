// Lists of what is refused, grouped by reason, for one message.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace qtape {

/// Reasons in the order in which they came, each with the places that have it.
class Reasons {
 public:
  void add(std::string place, const std::string& reason);

  /// Returns the number of places.
  int64_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  /// Returns "A, B: REASON; C: OTHER". A reason names at most ten places and the number of the
  /// others: "A, B, ... and 170 others: REASON".
  std::string text() const;

 private:
  struct Reason {
    std::string text;
    std::vector<std::string> places = {};
  };

  std::vector<Reason> reasons_;
  int64_t size_ = 0;
};

}  // namespace qtape
