#include "qtape/integer/ops/input.h"

#include <algorithm>

#include "qtape/integer/core/integer_binding.h"

namespace qtape::integer {

IntegerKernel Input::optimized(const IntegerBinding& b) const {
  if (indices == 0) return {};
  return {.run = [x = b.y<int32_t>(), n = b.out().type.elements(), end = indices] {
    const int32_t* wrong =
        std::find_if(x, x + n, [end](int32_t each) { return each < 0 || each >= end; });
    check(wrong == x + n, "element {} is {}, expected an index within 0..{}", wrong - x,
          wrong == x + n ? 0 : *wrong, end - 1);
  }};
}

IntegerKernel Input::reference(const IntegerBinding& b) const { return optimized(b); }

}  // namespace qtape::integer
