// xtensor views of the values of a tape. A separate header, because xtensor takes seconds to
// compile.
#pragma once

#include <span>
#include <string_view>
#include <vector>
#include <xtensor/xadapt.hpp>

#include "qtape/engine/tape.h"

namespace qtape {

namespace detail {

/// View of `values`; const if they are.
template <class T>
auto view_of(std::span<T> values, const Shape& shape) {
  const auto extents = shape.extents();
  return xt::adapt(values.data(), values.size(), xt::no_ownership(),
                   std::vector<size_t>(extents.begin(), extents.end()));
}

}  // namespace detail

/// View, with the shape of the node, of an output, an input or a leaf; throws as Tape::value
/// does. It is valid as long as the tape, and its content until the next forward.
template <class T>
auto view(const Tape& tape, NodeId id) {
  return detail::view_of(tape.value<T>(id), tape.graph()[id].type.shape);
}
/// View of the node with the label `label`.
template <class T>
auto view(const Tape& tape, std::string_view label) {
  return view<T>(tape, tape.graph().at(label));
}

/// Writable view of an input; throws as Tape::input does.
template <class T>
auto input_view(Tape& tape, NodeId id) {
  return detail::view_of(tape.input<T>(id), tape.graph()[id].type.shape);
}
/// Writable view of the input with the label `label`.
template <class T>
auto input_view(Tape& tape, std::string_view label) {
  return input_view<T>(tape, tape.graph().at(label));
}

}  // namespace qtape
