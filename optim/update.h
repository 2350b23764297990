// Data on which the loops of an optimizer work, computed before the loops start.
#pragma once

#include <cstddef>
#include <cstdint>

namespace qtape::detail {

/// Scalars of one step for one parameter group, in double.
struct UpdateFactors {
  double rate = 0;      ///< learning rate, including the bias correction of the first moment
  double keep = 1;      ///< 1 - learning rate * decoupled weight decay
  double decay = 0;     ///< L2 weight decay
  double momentum = 0;  ///< decay of the momentum or first moment
  double first_weight = 1;   ///< 1 - beta1
  double second_keep = 0;    ///< decay of the second moment
  double second_weight = 1;  ///< 1 - second_keep
  double root_scale = 1;     ///< 1 / sqrt(bias correction of the second moment)
  double epsilon = 0;
};

/// Consecutive elements of one parameter. `first` and `second` are null if the rule has no such
/// moment.
struct UpdateSpan {
  std::byte* value = nullptr;
  const std::byte* gradient = nullptr;
  std::byte* first = nullptr;
  std::byte* second = nullptr;
  int64_t n = 0;
};

/// Updates one span in place.
using UpdateLoop = void (*)(const UpdateFactors*, const UpdateSpan*);

}  // namespace qtape::detail
