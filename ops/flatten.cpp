#include "qtape/ops/flatten.h"

#include "qtape/ops/families/copy.h"

namespace qtape {

static_assert(Compute<Flatten>);

TensorType Flatten::infer(Inputs inputs) const {
  const Shape& x = inputs[0].shape;
  check(start_axis >= -x.rank() && start_axis <= x.rank(),
        "start_axis {} is out of range for rank {}", start_axis, x.rank());
  const int first = start_axis < 0 ? start_axis + x.rank() : start_axis;
  std::vector<int64_t> extents(x.extents().begin(), x.extents().begin() + first);
  int64_t joined = 1;
  for (int i = first; i < x.rank(); ++i) joined *= x[i];
  extents.push_back(joined);
  return {inputs[0].dtype, Shape(extents)};
}

Kernel Flatten::forward(const Binding& b) const { return view_forward(b); }

Kernel Flatten::backward(const Binding& b) const { return view_backward(b); }

}  // namespace qtape
