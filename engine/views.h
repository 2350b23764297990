// xtensor views of what a tape holds. A header of its own: xtensor takes seconds to compile.
#pragma once

#include <span>
#include <string_view>
#include <vector>
#include <xtensor/xadapt.hpp>

#include "qtape/engine/tape.h"

namespace qtape {

namespace detail {

/// A view of `values`, const where these are.
template <class T>
auto view_of(std::span<T> values, const Shape& shape) {
  const auto extents = shape.extents();
  return xt::adapt(values.data(), values.size(), xt::no_ownership(),
                   std::vector<size_t>(extents.begin(), extents.end()));
}

}  // namespace detail

/// A view with the node's shape on an output, an input or a leaf; errors as Tape::value. It
/// stays valid as long as the tape, and its content until the next forward.
template <class T>
auto view(const Tape& tape, NodeId id) {
  return detail::view_of(tape.value<T>(id), tape.graph()[id].type.shape);
}
/// The same of the node called `label`.
template <class T>
auto view(const Tape& tape, std::string_view label) {
  return view<T>(tape, tape.graph().at(label));
}

/// A writable view of an input; errors as Tape::input.
template <class T>
auto input_view(Tape& tape, NodeId id) {
  return detail::view_of(tape.input<T>(id), tape.graph()[id].type.shape);
}
/// The same of the input called `label`.
template <class T>
auto input_view(Tape& tape, std::string_view label) {
  return input_view<T>(tape, tape.graph().at(label));
}

}  // namespace qtape
