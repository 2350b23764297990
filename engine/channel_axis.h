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

template <class Op>
concept ReducesAxes = requires(Op op) {
  op.axes.empty();
  op.keep_dims;
};
template <class Op>
concept ReducesAxis = requires(Op op) {
  op.axis;
  op.keep_dims;
};
template <class Op>
concept Permutes = requires(Op op) {
  op.permutation;
};
template <class Op>
concept HasKernel = requires(Op op) {
  op.kernel;
};
template <class Op>
concept HasGroups = requires(Op op) {
  op.groups;
};
template <class Op>
concept HasWeights = requires(Op op) {
  op.weights;
};
/// Windows and products, whose results have channels along the last axis.
template <class Op>
concept MakesChannels = HasKernel<Op> || HasGroups<Op> || HasWeights<Op>;

/// True for a reduction without its axes that reduces the last of `rank`.
template <class Op>
bool drops_last(const Op& op, int rank) {
  const auto is_last = [rank](int axis) { return axis == -1 || axis == rank - 1; };
  if constexpr (ReducesAxes<Op>) {
    return !op.keep_dims && (op.axes.empty() || std::ranges::any_of(op.axes, is_last));
  } else if constexpr (ReducesAxis<Op>) {
    return !op.keep_dims && is_last(op.axis);
  } else {
    return false;
  }
}

/// True for a permutation that moves the last of `rank` axes.
template <class Op>
bool moves_last(const Op& op, int rank) {
  if constexpr (Permutes<Op>) {
    return rank > 1 && (op.permutation.empty() || op.permutation.back() != rank - 1);
  } else {
    return false;
  }
}

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
    const auto source = std::ranges::find_if(operands, [&](IdIn<Nodes> each) {
      return detail::shape_of(nodes[each]).rank() >= shape.rank();
    });
    if (source == operands.end()) return true;
    const Shape& from = detail::shape_of(nodes[*source]);
    if (shape.rank() == 0 || from.rank() == 0) return true;
    bool made = false, lost = false;
    std::visit(
        [&]<class Op>(const Op& op) {
          made = detail::MakesChannels<Op>;
          lost = detail::drops_last(op, from.rank()) ||
                 (shape.rank() == answered && detail::moves_last(op, from.rank()));
        },
        nodes[id].op);
    if (made) return true;
    // An axis of channels of extent 1 that a reshape drops.
    lost = lost || (from.rank() > shape.rank() && from[-1] == 1 && shape[-1] != 1);
    if (lost) return false;
    id = *source;
  }
  return true;
}

}  // namespace qtape
