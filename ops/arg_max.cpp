#include "qtape/ops/arg_max.h"

#include <limits>

#include "qtape/kernels/simd/threads.h"
#include "qtape/ops/families/reduction.h"

namespace qtape {

using namespace kernels;

static_assert(Compute<ArgMax>);

TensorType ArgMax::infer(Inputs inputs) const {
  check_compute(inputs[0]);
  const Shape& x = inputs[0].shape;
  const Shape y = reduced_shape(x, std::vector<int>{axis}, keep_dims);
  const int64_t extent = x[axis < 0 ? axis + x.rank() : axis];
  check(extent >= 1 && extent <= std::numeric_limits<int32_t>::max(),
        "axis {} must have 1 to 2^31 - 1 elements, x is {}", axis, to_string(x));
  return {DType::S32, y};
}

Kernel ArgMax::forward(const Binding& b) const {
  const Shape& x = b.inputs[0].shape;
  const int at = axis < 0 ? axis + x.rank() : axis;
  int64_t inner = 1;
  for (int k = at + 1; k < x.rank(); ++k) inner *= x[k];
  return dispatch_compute(b.inputs[0].dtype, [&]<class T>() -> Kernel {
    const auto search = [inner, extent = x[at], x = b.operand<const T>(0), y = b.y<int32_t>()](
                            int64_t begin, int64_t end) {
      for (int64_t o = begin; o < end; ++o) {
        const T* from = x + o / inner * extent * inner + o % inner;
        int64_t best = 0;
        for (int64_t i = 1; i < extent; ++i) {
          const T value = from[i * inner], most = from[best * inner];
          if (value > most || (value != value && most == most)) best = i;
        }
        y[o] = static_cast<int32_t>(best);
      }
    };
    const int64_t grain = std::max<int64_t>(1, pointwise_grain / x[at]);
    return [search, grain, n = b.output.elements(), threads = b.threads](const Step&) {
      parallel_for(threads, n, 1, grain, search);
    };
  });
}

Kernel ArgMax::backward(const Binding&) const { return {}; }

}  // namespace qtape
