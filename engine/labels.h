// Labels for nodes that are added to a graph.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "qtape/engine/graph.h"

namespace qtape {

/// Returns `label`, or the first of `label.2`, `label.3`, ... for which `taken` is false.
/// `separator` precedes the number.
template <class Taken>
std::string unused_label(const std::string& label, const Taken& taken,
                         std::string_view separator = ".") {
  std::string unused = label;
  for (int64_t number = 2; taken(unused); ++number) {
    unused = label + std::string(separator) + std::to_string(number);
  }
  return unused;
}

/// Returns the first such label that, followed by `suffix`, is unused in `graph`.
std::string unused_label(const Graph& graph, const std::string& label,
                         std::string_view suffix = {});

/// Returns `NAME`, the label of the value that the quantizer `NAME.quantized` rounds; empty for
/// other labels.
std::string value_label(std::string_view label);

/// Returns the label of an answer, or that of the value before its quantizer, `NAME` for
/// `NAME.quantized`, or of the layer before a Relu, Relu6 or Clamp without a label, unless
/// another answer has that name; `%7` if there is no label.
std::string answer_name(const Graph& graph, NodeId answer);

/// Returns the label of a node, or its op and the nearest labelled node along operands 0, such
/// as `Softmax after fc1`: unlike `%7`, it remains valid in graphs derived from this one.
std::string name_near(const Graph& graph, NodeId id);

/// Base label for a quantizer after a node: the label of the node, else the label followed by
/// `.output` of the nearest labelled node along operands 0, else `value`.
std::string label_near(const Graph& graph, NodeId id);

}  // namespace qtape
