// Labels for nodes that are added to a graph.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "qtape/engine/graph.h"

namespace qtape {

/// `label`, or the first of `label.2`, `label.3`, ... for which `taken` says false. `separator` is what stands before the number.
template <class Taken>
std::string unused_label(const std::string& label, const Taken& taken,
                         std::string_view separator = ".") {
  std::string unused = label;
  for (int64_t number = 2; taken(unused); ++number) {
    unused = label + std::string(separator) + std::to_string(number);
  }
  return unused;
}

/// The same where `graph` must have no such label with `suffix`.
std::string unused_label(const Graph& graph, const std::string& label,
                         std::string_view suffix = {});

/// What a quantizer after a node may be called after: its label, else with `.output` that of
/// the nearest node with one that operands 0 lead to, else `value`.
std::string label_near(const Graph& graph, NodeId id);

}  // namespace qtape
