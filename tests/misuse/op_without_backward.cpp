// error: backward
#include "qtape/ops/core/op.h"

namespace qtape {

struct Halved {
  static constexpr std::string_view name = "Halved";
  static constexpr OpDocs docs{.summary = "Halves.",
                               .formula = "y = x / 2.",
                               .operands = "x f32.",
                               .gradient = "dx = dy / 2.",
                               .saves = "Nothing.",
                               .edge_cases = "None.",
                               .source = "Elementary."};
  static constexpr auto fields() { return std::tuple<>{}; }
  std::vector<Slot> slots() const { return {}; }
  TensorType infer(Inputs inputs) const { return inputs[0]; }
  Keep keep() const { return {}; }
  Footprint footprint(Inputs) const { return {}; }
  Kernel forward(const Binding&) const { return {}; }
#ifndef MISUSE
  Kernel backward(const Binding&) const { return {}; }
#endif
  bool operator==(const Halved&) const = default;
};
static_assert(Compute<Halved>);

}  // namespace qtape
