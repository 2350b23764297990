// Norms that exporters write as several nodes: means, squares and roots, or reshaped instance
// norms.
#pragma once

#include <onnx/onnx_pb.h>

#include <map>
#include <set>
#include <vector>

#include "qtape/onnx/import/importer.h"

namespace qtape {

/// Nodes of a graph that are one norm together.
struct NormPattern {
  /// A node that replaces the first nodes of the pattern. It has the type and attributes of
  /// ONNX's norm, with `axes` in place of `axis`.
  struct Form {
    onnx::NodeProto node;
    size_t replaced = 0;
  };

  std::vector<Form> forms;  ///< without factor and bias, and with those whose shapes may fit
  std::vector<int> nodes;   ///< by index
};

struct NormPatterns {
  std::map<int, NormPattern> norms;  ///< by the last node
  std::set<int> merged;              ///< other nodes of the patterns
};

/// Returns the norms among `nodes` of the graph, by structure and constants alone. The values
/// within a pattern have no other readers.
NormPatterns find_norms(const onnx::GraphProto& graph, const std::vector<int>& nodes,
                        const OnnxImporter& importer);

}  // namespace qtape
