// What flows through an integer program: codes on a grid, accumulators on a finer one, floats
// at the ends.
#pragma once

#include <cstdint>
#include <vector>

#include "qtape/core/fields.h"
#include "qtape/core/requantization.h"
#include "qtape/core/types.h"

namespace qtape {

/// The type of one value of an integer program. Codes (s8, u8, s16, u16) stand for
/// (q - zero_point) scale, accumulators (s32, s64) for acc scale.
struct IntegerValue {
  TensorType type;
  /// Codes: one, an f32. Accumulators: one, or one for each index of the last axis. f32: none.
  std::vector<double> scales = {};
  int32_t zero_point = 0;
  /// Codes and accumulators: the range that no value leaves.
  int64_t low = 0;
  int64_t high = 0;
  /// Accumulators: as what SingleRounding and DoubleRounding requantize them.
  Accumulator accumulator = Accumulator::S32;

  bool is_codes() const;
  bool is_accumulators() const { return type.dtype == DType::S32 || type.dtype == DType::S64; }
  /// The largest distance of a code from its zero point.
  int64_t limit() const;
  bool operator==(const IntegerValue&) const = default;
};

/// A grid of codes, as ops that make codes carry it.
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

/// The value of codes of `grid`. Throws GraphError, naming what is wrong with it.
IntegerValue codes_of(const CodeGrid& grid, const Shape& shape);

/// Makes codes `value` those of `grid`, whose dtype it has.
void set_grid(IntegerValue& value, const CodeGrid& grid);

/// The codes `x` with the zero point among them, which is what padding holds.
IntegerValue with_zero_point(IntegerValue x);

/// Throws GraphError, which names the operand as `what`, unless `value` is codes.
void check_codes(const IntegerValue& value, std::string_view what);

}  // namespace qtape
