// Input: floats provided by the caller of a program.
#pragma once

#include "qtape/integer/core/integer_op.h"

namespace qtape::integer {

struct Input {
  static constexpr std::string_view name = "Input";
  static constexpr std::string_view doc =
      "f32 values that the caller writes before a run. With `batch`, the first extent is the "
      "batch.";

  Shape shape = {};
  bool batch = true;

  static constexpr auto fields() {
    return std::tuple{field("shape", &Input::shape, "extents, the batch first"),
                      field("batch", &Input::batch, "whether the first extent is the batch")};
  }
  IntegerValue infer(IntegerInputs inputs) const {
    check_operands(inputs, 0);
    check(!batch || shape.rank() >= 1, "a batched input needs rank >= 1");
    return {{DType::F32, shape}};
  }
  void update(const IntegerBinding&, IntegerValue&) const {}
  IntegerKernel reference(const IntegerBinding&) const { return {}; }
  IntegerKernel optimized(const IntegerBinding&) const { return {}; }
  bool operator==(const Input&) const = default;
};

}  // namespace qtape::integer
