// Input: floats or indices provided by the caller of a program.
#pragma once

#include <limits>
#include <span>

#include "qtape/integer/core/integer_op.h"

namespace qtape::integer {

/// Throws GraphError that names the first of the indices outside 0..end - 1.
void check_indices(std::span<const int32_t> indices, int64_t end);

struct Input {
  static constexpr std::string_view name = "Input";
  static constexpr std::string_view doc =
      "Values that the caller writes before a run: f32 or, with `indices`, s32 of scale 1 "
      "within 0..indices - 1; any other is an error. With `batch`, the first extent is the "
      "batch.";

  Shape shape = {};
  bool batch = true;
  int64_t indices = 0;

  static constexpr auto fields() {
    return std::tuple{field("shape", &Input::shape, "extents, the batch first"),
                      field("batch", &Input::batch, "the first extent is the batch"),
                      optional_field("indices", &Input::indices,
                                     "number of indices; 0: the elements are f32")};
  }
  IntegerValue infer(IntegerInputs inputs) const {
    check_operands(inputs, 0);
    check(!batch || shape.rank() >= 1, "a batched input needs rank >= 1");
    check(indices >= 0 && indices <= std::numeric_limits<int32_t>::max(),
          "indices must be in 0..2^31 - 1, got {}", indices);
    if (indices == 0) return {{DType::F32, shape}};
    return {{DType::S32, shape}, {1.0}, 0, 0, indices - 1};
  }
  void update(const IntegerBinding&, IntegerValue&) const {}
  /// Checks the range of indices.
  IntegerKernel reference(const IntegerBinding& binding) const;
  IntegerKernel optimized(const IntegerBinding& binding) const;
  bool operator==(const Input&) const = default;
};

}  // namespace qtape::integer
