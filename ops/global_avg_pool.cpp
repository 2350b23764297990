#include "qtape/ops/global_avg_pool.h"

#include "qtape/ops/families/average.h"

namespace qtape {
namespace {

/// Number of positions of an image of x.
double positions_of(const Shape& x) {
  return x.rank() == 4 ? static_cast<double>(x[1]) * static_cast<double>(x[2])
                       : static_cast<double>(x[1]);
}

}  // namespace

static_assert(Compute<GlobalAvgPool>);

std::vector<int> GlobalAvgPool::axes(const Shape& x) {
  return x.rank() == 4 ? std::vector{1, 2} : std::vector{1};
}

TensorType GlobalAvgPool::infer(Inputs inputs) const {
  check_compute(inputs[0]);
  const Shape& x = inputs[0].shape;
  check(x.rank() == 3 || x.rank() == 4, "x must be [n, h, w, c] or [n, l, c], got {}",
        to_string(x));
  check(positions_of(x) >= 1, "the mean of no elements is undefined, x is {}", to_string(x));
  return {inputs[0].dtype, reduced_shape(x, axes(x), keep_dims)};
}

Kernel GlobalAvgPool::forward(const Binding& b) const {
  const Shape& x = b.inputs[0].shape;
  return average_forward(b, axes(x), positions_of(x));
}

Kernel GlobalAvgPool::backward(const Binding& b) const {
  const Shape& x = b.inputs[0].shape;
  return average_backward(b, axes(x), positions_of(x));
}

}  // namespace qtape
