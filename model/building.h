// The graph that the values of a network share: for the sources of model/value.h.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "qtape/model/value.h"

namespace qtape::detail {

/// A growing graph, shared by its values.
struct Building {
  Graph graph;

  /// Returns `stem` with the smallest number from 1 for which it and derived labels are unused.
  std::string numbered(std::string_view stem) const {
    for (int64_t number = 1;; ++number) {
      std::string label = fmt::format("{}{}", stem, number);
      if (!taken(label)) return label;
    }
  }

  /// Returns `label`, or a numbered one if it is empty.
  std::string label_or(const std::string& label, std::string_view stem) const {
    return label.empty() ? numbered(stem) : label;
  }

  static Value value(const std::shared_ptr<Building>& building, NodeId id) {
    return {building, id};
  }
  static const std::shared_ptr<Building>& of(const Value& value) { return value.building_; }

 private:
  bool taken(const std::string& label) const {
    return graph.find(label) || graph.find(label + ".weight") || graph.find(label + ".gamma") ||
           graph.find(label + ".input");
  }
};

/// Adds a layer of the low-level functions. `add` takes the graph and the id of x.
template <class Add>
Value layer_of(const Value& x, const Add& add) {
  const auto& building = Building::of(x);
  return Building::value(building, add(building->graph, x.id()));
}

}  // namespace qtape::detail
