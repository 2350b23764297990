// Slice: a range of indices along an axis.
#pragma once

#include <optional>

#include "qtape/ops/core/op.h"

namespace qtape {

struct Slice {
  static constexpr std::string_view name = "Slice";
  static constexpr OpDocs docs{
      .summary = "Takes a range of indices of an axis.",
      .formula = "y = x[begin:end] along `axis`.",
      .operands = {"x has any dtype and rank >= 1.",
                   "y has extent end - begin >= 0 along the axis."},
      .gradient = "dx = dy in the range, else 0.",
      .saves = "Nothing.",
      .edge_cases = {"Negative begin and end count from the back.",
                     "Both must lie in -n..n for an axis of extent n."},
      .source = "Elementary."};
  static constexpr Sign sign = Sign::Kept;

  int axis = 0;
  int64_t begin = 0;
  std::optional<int64_t> end = std::nullopt;

  static constexpr auto fields() {
    return std::tuple{field("axis", &Slice::axis, "axis, negative from the back"),
                      field("begin", &Slice::begin, "first index, negative from the back"),
                      field("end", &Slice::end,
                            "index after the last, negative from the back; null: to the end")};
  }
  std::vector<Slot> slots() const { return {{.name = "x"}}; }
  TensorType infer(Inputs inputs) const;
  Keep keep() const { return {}; }
  Footprint footprint(Inputs) const { return {}; }
  Kernel forward(const Binding& binding) const;
  Kernel backward(const Binding& binding) const;
  bool operator==(const Slice&) const = default;
};

}  // namespace qtape
