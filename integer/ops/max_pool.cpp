// Reference of MaxPool: plain loops.
#include "qtape/ops/max_pool.h"

#include <limits>

#include "qtape/integer/ops/structure_kernels.h"

namespace qtape::integer {
namespace {

/// Returns the largest code of one window, ignoring positions outside x.
template <class Code>
Code largest(const Pool& pool, const Code* image, int64_t i, int64_t j, int64_t c) {
  const WindowAxis& h = pool.window.h;
  const WindowAxis& w = pool.window.w;
  Code most = std::numeric_limits<Code>::lowest();
  for (int64_t p = 0; p < h.kernel; ++p) {
    for (int64_t q = 0; q < w.kernel; ++q) {
      const int64_t row = i * h.stride + p * h.dilation - h.begin;
      const int64_t column = j * w.stride + q * w.dilation - w.begin;
      if (row < 0 || row >= h.in || column < 0 || column >= w.in) continue;
      most = std::max(most, image[(row * w.in + column) * pool.channels + c]);
    }
  }
  return most;
}

}  // namespace

template <>
IntegerKernel Structure<qtape::MaxPool>::reference(const IntegerBinding& b) const {
  return dispatch_codes(b.out().type.dtype, [&]<class Code>() -> IntegerKernel {
    return {.run = [pool = this->pool(b.in(0).type.shape), x = b.operand<Code>(0),
                    y = b.y<Code>()] {
      const WindowAxis& h = pool.window.h;
      const WindowAxis& w = pool.window.w;
      Code* to = y;
      for (int64_t n = 0; n < pool.images; ++n) {
        const Code* image = x + n * h.in * w.in * pool.channels;
        for (int64_t i = 0; i < h.out; ++i) {
          for (int64_t j = 0; j < w.out; ++j) {
            for (int64_t c = 0; c < pool.channels; ++c) *to++ = largest(pool, image, i, j, c);
          }
        }
      }
    }};
  });
}

template struct Structure<qtape::MaxPool>;
static_assert(IntegerCompute<Structure<qtape::MaxPool>>);

}  // namespace qtape::integer
