// Slice: a range of indices along an axis.
#pragma once

#include <optional>

#include "qtape/ops/core/op.h"

namespace qtape {

struct Slice {
  static constexpr std::string_view name = "Slice";
  static constexpr std::string_view doc =
      "y = x[begin:end] along axis, of extent end - begin >= 0 there. x of any dtype and shape "
      "but a scalar. Negative begin and end count from the back; both must lie in -n..n for an "
      "axis of extent n. Gradient: dx = dy in the range, else 0. Keeps nothing.";

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
