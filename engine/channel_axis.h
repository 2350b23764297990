// Values whose last axis holds positions, not channels.
#pragma once

#include <algorithm>
#include <ranges>
#include <variant>

#include "qtape/core/types.h"
#include "qtape/engine/node_id.h"

namespace qtape {

namespace detail {

/// Returns the shape of a node of a graph or a program.
const Shape& shape_of(const auto& node) {
  if constexpr (requires { node.type.shape; }) {
    return node.type.shape;
  } else {
    return node.value.type.shape;
  }
}

/// True for a reduction without its axes that reduces the last of `rank`.
template <class Op>
bool drops_last(const Op& op, int rank) {
  const auto is_last = [rank](int axis) { return axis == -1 || axis == rank - 1; };
  if constexpr (requires { op.keep_dims&& op.axes.empty(); }) {
    return !op.keep_dims && (op.axes.empty() || std::ranges::any_of(op.axes, is_last));
  } else if constexpr (requires { op.keep_dims&& op.axis == 0; }) {
    return !op.keep_dims && is_last(op.axis);
  } else {
    return false;
  }
}

/// True for a permutation that moves the last axis.
template <class Op>
bool moves_last(const Op& op, int rank) {
  if constexpr (requires { op.permutation; }) {
    return rank > 1 && (op.permutation.empty() || op.permutation.back() != rank - 1);
  } else {
    return false;
  }
}

/// True for windows and products, whose results have channels along the last axis.
template <class Op>
constexpr bool makes_channels = requires(Op op) {
  op.kernel;
}
|| requires(Op op) { op.groups; }
|| requires(Op op) { op.weights; };

}  // namespace detail

/// Returns false if the axis of channels of `id`, the last one elsewhere, was reduced, moved or
/// dropped with the extent 1, as in the maps [batch, h, w] of an ArgMax over classes. `nodes`
/// is a graph or an integer program.
template <class Nodes>
bool has_channel_axis(const Nodes& nodes, IdIn<Nodes> id) {
  const int answered = detail::shape_of(nodes[id]).rank();
  while (!nodes[id].operands.empty()) {
    const Shape& shape = detail::shape_of(nodes[id]);
    const auto& operands = nodes[id].operands;
    const auto main = std::ranges::find_if(operands, [&](IdIn<Nodes> each) {
      return detail::shape_of(nodes[each]).rank() >= shape.rank();
    });
    if (main == operands.end()) return true;
    const Shape& from = detail::shape_of(nodes[*main]);
    if (shape.rank() == 0 || from.rank() == 0) return true;
    bool made = false, lost = false;
    std::visit(
        [&]<class Op>(const Op& op) {
          made = detail::makes_channels<Op>;
          lost = detail::drops_last(op, from.rank()) ||
                 (shape.rank() == answered && detail::moves_last(op, from.rank()));
        },
        nodes[id].op);
    if (made) return true;
    // An axis of channels of extent 1 that a reshape drops.
    lost = lost || (from.rank() > shape.rank() && from[-1] == 1 && shape[-1] != 1);
    if (lost) return false;
    id = *main;
  }
  return true;
}

}  // namespace qtape
