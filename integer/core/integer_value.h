// Values of integer programs: codes on a grid, accumulators on a finer grid, and floats at
// inputs and outputs.
#pragma once

#include <cstdint>
#include <vector>

#include "qtape/core/fields.h"
#include "qtape/core/requantization.h"
#include "qtape/core/types.h"

namespace qtape {

/// The type of one value of an integer program. Codes (s8, u8, s16, u16) represent
/// (q - zero_point) scale, accumulators (s32, s64) represent acc scale.
struct IntegerValue {
  TensorType type;
  /// Codes: one f32 value. Accumulators: one, or one per index of the last axis. f32: none.
  std::vector<double> scales = {};
  int32_t zero_point = 0;
  /// Codes and accumulators: range that contains every element.
  int64_t low = 0;
  int64_t high = 0;
  /// Accumulators: the kind as which SingleRounding and DoubleRounding requantize them.
  Accumulator accumulator = Accumulator::S32;
  /// Accumulators of a mean: the number of terms, by which their scale is divided.
  int64_t terms = 1;

  bool is_codes() const;
  bool is_accumulators() const { return type.dtype == DType::S32 || type.dtype == DType::S64; }
  /// Returns the largest distance of a code from its zero point.
  int64_t limit() const;
  bool operator==(const IntegerValue&) const = default;
};

/// Grid of codes, an attribute of ops that write codes.
struct CodeGrid {
  static constexpr std::string_view name = "CodeGrid";
  DType dtype = DType::S8;
  double scale = 1;
  int32_t zero_point = 0;
  int32_t low = -128;
  int32_t high = 127;

  static constexpr auto fields() {
    using G = CodeGrid;
    return std::tuple{field("dtype", &G::dtype, "s8, u8, s16 or u16"),
                      field("scale", &G::scale, "value of one step, a positive normal f32"),
                      field("zero_point", &G::zero_point, "code of the value 0"),
                      field("low", &G::low, "smallest code that is written"),
                      field("high", &G::high, "largest code that is written")};
  }
  bool operator==(const CodeGrid&) const = default;
};

/// Returns the type of codes of `grid`. Throws GraphError that names the invalid attribute.
IntegerValue codes_of(const CodeGrid& grid, const Shape& shape);

/// Sets scale, zero point and range of codes `value` to those of `grid`, which must have the
/// same dtype.
void set_grid(IntegerValue& value, const CodeGrid& grid);

/// Returns the codes `x` with the range extended to include the zero point, the code of
/// padding.
IntegerValue with_zero_point(IntegerValue x);

/// True for indices: s32 values that represent themselves, none of them negative.
bool is_indices(const IntegerValue& value);

/// Throws GraphError, naming the operand as `what`, unless `value` is codes.
void check_codes(const IntegerValue& value, std::string_view what);

}  // namespace qtape
