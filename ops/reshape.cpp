#include "qtape/ops/reshape.h"

#include <algorithm>

#include "qtape/ops/families/copy.h"

namespace qtape {
namespace {

std::string spelled(std::span<const int64_t> extents) {
  std::string text;
  for (int64_t extent : extents) text += (text.empty() ? "" : ", ") + std::to_string(extent);
  return "[" + text + "]";
}

}  // namespace

static_assert(Compute<Reshape>);

TensorType Reshape::infer(Inputs inputs) const {
  const int64_t elements = inputs[0].elements();
  std::vector<int64_t> extents = shape;
  const auto open = std::ranges::find(extents, -1);
  if (open != extents.end()) {
    *open = 1;
    check(std::ranges::find(extents, -1) == extents.end(),
          "at most one extent may be -1, got {}", spelled(shape));
    const int64_t others = Shape(extents).elements();
    check(others > 0 && elements % others == 0, "cannot reshape {} to {}",
          to_string(inputs[0].shape), spelled(shape));
    *open = elements / others;
  }
  const Shape result(extents);
  check(result.elements() == elements, "cannot reshape {} to {}", to_string(inputs[0].shape),
        spelled(shape));
  return {inputs[0].dtype, result};
}

Kernel Reshape::forward(const Binding& b) const { return view_forward(b); }

Kernel Reshape::backward(const Binding& b) const { return view_backward(b); }

}  // namespace qtape
