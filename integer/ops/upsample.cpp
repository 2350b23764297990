// Reference of Upsample: plain loops.
#include "qtape/ops/upsample.h"

#include "qtape/integer/ops/structure_kernels.h"

namespace qtape::integer {

template <>
IntegerKernel Structure<qtape::Upsample>::reference(const IntegerBinding& b) const {
  return dispatch_codes(b.out().type.dtype, [&]<class Code>() -> IntegerKernel {
    return {.run = [x = b.in(0).type.shape, y = b.out().type.shape, from = b.operand<Code>(0),
                    to = b.y<Code>()] {
      for (int64_t i = 0; i < y.elements(); ++i) {
        int64_t place = 0;
        int64_t stride = 1;
        int64_t rest = i;
        for (int axis = y.rank() - 1; axis >= 0; --axis) {
          const int64_t repeats = y[axis] / x[axis];
          place += rest % y[axis] / repeats * stride;
          stride *= x[axis];
          rest /= y[axis];
        }
        to[i] = from[place];
      }
    }};
  });
}

template struct Structure<qtape::Upsample>;
static_assert(IntegerCompute<Structure<qtape::Upsample>>);

}  // namespace qtape::integer
