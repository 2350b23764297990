// IntegerAnalysis: what each node of a graph means in integer arithmetic. Exact forward passes
// and the conversion to integer programs read it alike, so they cannot disagree on what is
// integer.
#pragma once

#include <algorithm>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "qtape/engine/graph.h"
#include "qtape/engine/parameters.h"

namespace qtape {

enum class IntegerKind : uint8_t {
  Float,         ///< no integers
  Weight,        ///< codes of what depends on no input
  Codes,         ///< (q - zp) s with the codes q of a quantizer of one scale
  Accumulators,  ///< S[c] times a sum of codes or of products of codes; c is the index of the
                 ///< last axis
  Blend          ///< Add or Concat: integers once a quantizer gives them a grid
};

/// The integers of one node. Views (`is_view`) share those of their operand, in the same order.
struct IntegerForm {
  IntegerKind kind = IntegerKind::Float;
  /// The node whose integers they are. Codes: a quantizer, Relu, Slice or Max; Accumulators:
  /// MatMul, AddBias, Sum or Mean; Blend: Add or Concat; Weight: a quantizer.
  NodeId source;
  NodeId quantizer;  ///< Codes and Weight: whose scales they have
  /// What Relu and Clamp after the source left to be done: limits of the value.
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();

  bool is_clamped() const {
    return low > -std::numeric_limits<double>::infinity() ||
           high < std::numeric_limits<double>::infinity();
  }
  /// This form within limits of the value.
  IntegerForm limited(double least, double most) const {
    IntegerForm result = *this;
    result.low = std::clamp(low, least, most);
    result.high = std::clamp(high, least, most);
    return result;
  }
  /// Codes as they are: what products, slices and maxima can be taken of.
  bool is_plain_codes() const { return kind == IntegerKind::Codes && !is_clamped(); }
  bool is_integer() const {
    return kind == IntegerKind::Codes || kind == IntegerKind::Accumulators ||
           kind == IntegerKind::Blend;
  }
};

struct IntegerAnalysis {
  std::vector<IntegerForm> forms;  ///< by node
  /// By node: itself, or what the views there show.
  std::vector<NodeId> origins;
  /// By node: why it has no integers although nothing before it stands in the way; else empty.
  std::vector<std::string> reasons;

  const IntegerForm& operator[](NodeId id) const {
    return forms[static_cast<size_t>(id.index)];
  }
  NodeId origin(NodeId id) const { return origins[static_cast<size_t>(id.index)]; }
};

/// Never throws: what has no integers is told in `reasons`.
IntegerAnalysis analyze_integers(const Graph& graph);

/// The leaf that holds the bias of the AddBias at `id`: its operand b, or what a
/// FakeQuantizeBias there rounds.
NodeId bias_leaf(const Graph& graph, NodeId id);

/// The f32 numbers of that leaf.
std::vector<float> bias_values(const Graph& graph, const Parameters& parameters, NodeId leaf);

/// By node: whether `outputs` need it. Throws GraphError for ids that are not of the graph.
std::vector<bool> needed_for(const Graph& graph, std::span<const NodeId> outputs);

}  // namespace qtape
