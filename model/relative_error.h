// Error of values relative to how much they vary.
#pragma once

#include <cmath>
#include <cstdint>

namespace qtape {

/// Sums over values and their errors, in one pass. Both are finite.
class RelativeError {
 public:
  void add(double value, double error) {
    ++count_;
    const double distance = value - mean_;
    mean_ += distance / static_cast<double>(count_);
    spread_ += distance * (value - mean_);
    errors_ += error;
    squares_ += error * error;
  }
  /// Mean of the values; 0 without any.
  double mean() const { return mean_; }
  /// Standard deviation of the values; 0 without any.
  double deviation() const {
    return count_ > 0 ? std::sqrt(spread_ / static_cast<double>(count_)) : 0;
  }
  /// Root of the mean squared error in standard deviations of the values, which must vary.
  double root_mean_square() const { return std::sqrt(squares_ / spread_); }
  /// Standard deviation of the errors in those of the values; 0 if either does not vary.
  double varying() const {
    if (!(spread_ > 0)) return 0;
    const double varying = squares_ - errors_ * errors_ / static_cast<double>(count_);
    return varying > 0 ? std::sqrt(varying / spread_) : 0;
  }

 private:
  int64_t count_ = 0;
  double mean_ = 0;
  double spread_ = 0;   // sum of squared distances from the mean
  double errors_ = 0;   // sum of errors
  double squares_ = 0;  // sum of their squares
};

}  // namespace qtape
