// xtensor views of what a tape holds. A header of its own: xtensor takes seconds to compile.
#pragma once

#include <string_view>
#include <vector>
#include <xtensor/xadapt.hpp>

#include "qtape/engine/tape.h"

namespace qtape {

/// A view with the node's shape on an output, an input or a leaf; errors as Tape::value. It
/// stays valid as long as the tape, and its content until the next forward.
template <class T>
auto view(const Tape& tape, NodeId id) {
  const auto values = tape.value<T>(id);
  const auto extents = tape.graph()[id].type.shape.extents();
  const std::vector<size_t> shape(extents.begin(), extents.end());
  return xt::adapt(values.data(), values.size(), xt::no_ownership(), shape);
}
template <class T>
auto view(const Tape& tape, std::string_view label) {
  return view<T>(tape, tape.graph().at(label));
}

/// A writable view of an input; errors as Tape::input.
template <class T>
auto input_view(Tape& tape, NodeId id) {
  const auto values = tape.input<T>(id);
  const auto extents = tape.graph()[id].type.shape.extents();
  const std::vector<size_t> shape(extents.begin(), extents.end());
  return xt::adapt(values.data(), values.size(), xt::no_ownership(), shape);
}
template <class T>
auto input_view(Tape& tape, std::string_view label) {
  return input_view<T>(tape, tape.graph().at(label));
}

}  // namespace qtape
