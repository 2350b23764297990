#include "qtape/integer/ops/input.h"

#include <algorithm>

#include "qtape/integer/core/integer_binding.h"

namespace qtape::integer {

void check_indices(std::span<const int32_t> indices, int64_t end) {
  const auto wrong =
      std::ranges::find_if(indices, [end](int32_t each) { return each < 0 || each >= end; });
  check(wrong == indices.end(), "element {} is {}, expected an index within 0..{}",
        wrong - indices.begin(), wrong == indices.end() ? 0 : *wrong, end - 1);
}

IntegerKernel Input::optimized(const IntegerBinding& b) const {
  if (indices == 0) return {};
  const auto n = static_cast<size_t>(b.out().type.elements());
  return {.run = [x = std::span<const int32_t>(b.y<int32_t>(), n), end = indices] {
    check_indices(x, end);
  }};
}

IntegerKernel Input::reference(const IntegerBinding& b) const { return optimized(b); }

}  // namespace qtape::integer
