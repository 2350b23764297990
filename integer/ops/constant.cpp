#include "qtape/integer/ops/constant.h"

#include <fmt/format.h>

#include <cstring>

#include "qtape/integer/core/integer_binding.h"

namespace qtape::integer {

IntegerValue Constant::infer(IntegerInputs inputs) const {
  check_operands(inputs, 0);
  check(codes.type.dtype == grid.dtype && std::ssize(codes.data) == codes.type.bytes(),
        "the codes must be {}, got {}", to_string_view(grid.dtype), to_string(codes.type));
  IntegerValue y = codes_of(grid, codes.type.shape);
  dispatch_codes(grid.dtype, [&]<class Code>() {
    const auto* all = reinterpret_cast<const Code*>(codes.data.data());
    for (int64_t i = 0; i < codes.type.elements(); ++i) {
      check(all[i] >= grid.low && all[i] <= grid.high, "code {} must be within {}..{}, got {}",
            i, grid.low, grid.high, int32_t{all[i]});
    }
  });
  return y;
}

void Constant::update(const IntegerBinding&, IntegerValue& y) const { set_grid(y, grid); }

IntegerKernel Constant::optimized(const IntegerBinding& b) const {
  return {.load = [this, y = b.result] {
    if (!codes.data.empty()) std::memcpy(y, codes.data.data(), codes.data.size());
    return Fault{};
  }};
}

}  // namespace qtape::integer
