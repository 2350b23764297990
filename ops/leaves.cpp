#include "qtape/ops/leaves.h"

#include <cmath>

namespace qtape {

static_assert(Compute<Input> && Compute<Parameter> && Compute<State> && Compute<Constant>);

TensorType State::infer(Inputs) const {
  check_compute({dtype, shape});
  check(std::isfinite(value), "value must be finite, got {}", value);
  return {dtype, shape};
}

}  // namespace qtape
