#include "qtape/ops/leaves.h"

#include <cmath>

namespace qtape {

static_assert(Compute<Input> && Compute<Parameter> && Compute<State> && Compute<Constant>);

TensorType State::infer(Inputs) const {
  check_compute({dtype, shape});
  check(std::isfinite(dtype == DType::F64 ? value : double{static_cast<float>(value)}),
        "value must be a finite {}, got {}", to_string_view(dtype), value);
  return {dtype, shape};
}

}  // namespace qtape
