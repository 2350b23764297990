#include "qtape/ops/families/convolution.h"

#include <algorithm>
#include <limits>

namespace qtape {

void check_filters(Inputs inputs, int64_t groups, std::string_view x_layout,
                   std::string_view filter_layout) {
  check_same_compute(inputs[0], inputs[1]);
  const Shape& x = inputs[0].shape;
  const Shape& filters = inputs[1].shape;
  const auto rank = static_cast<int>(1 + std::ranges::count(x_layout, ','));
  check(x.rank() == rank, "x must be {}, got {}", x_layout, to_string(x));
  check(filters.rank() == rank, "filters must be {}, got {}", filter_layout,
        to_string(filters));
  check(groups >= 1, "groups must be at least 1, got {}", groups);
  check(x[-1] >= 1 && filters[0] >= 1, "channels must be at least 1, got {} and {} filters",
        x[-1], filters[0]);
  check(x[-1] % groups == 0 && filters[0] % groups == 0,
        "groups must divide the channels: {} groups of {} channels and {} filters", groups,
        x[-1], filters[0]);
  check(filters[-1] == x[-1] / groups,
        "filters need {} channels for {} channels in {} {}, got {}", x[-1] / groups, x[-1],
        groups, groups == 1 ? "group" : "groups", filters[-1]);
}

void check_extents(const Convolution& c) {
  constexpr int64_t limit = std::numeric_limits<int32_t>::max();
  check(c.images <= limit && c.in_channels <= limit && c.out_channels <= limit,
        "images and channels may be at most 2^31 - 1, got {}, {} and {}", c.images,
        c.in_channels, c.out_channels);
  for (const WindowAxis& axis : {c.window.h, c.window.w}) {
    const int64_t padded = axis.in + axis.begin + axis.end;
    check(padded <= limit, "padded extents may be at most 2^31 - 1, got {}", padded);
  }
}

}  // namespace qtape
