// Integer form of a node of a graph.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "qtape/engine/graph.h"

namespace qtape {

enum class IntegerKind : uint8_t {
  Float,         ///< no integers
  Weight,        ///< codes of a node that depends on no input
  Codes,         ///< (q - zp) s with the codes q of a quantizer of one scale
  Accumulators,  ///< S[c] times a sum of codes or of products of codes, where c is the index
                 ///< along the last axis
  Pending,       ///< integers once a following quantizer provides a grid
  Indices        ///< s32 indices, which are the same in floats: of an input, or of an ArgMax
};

/// The integers of one node. Views share the integers of their operand, in the same order.
struct IntegerForm {
  IntegerKind kind = IntegerKind::Float;
  /// The node that owns the integers. For Codes and Weight: a quantizer, or an op that selects
  /// codes of one. For Accumulators, Pending and Indices: the op that computes them.
  NodeId source;
  NodeId quantizer;  ///< Codes and Weight: the quantizer whose scales they have
  NodeId product;    ///< Accumulators of products: the op that multiplies; may equal `source`
  NodeId bias;       ///< Accumulators of products: the bias before rounding; depends on no
                     ///< input
  /// Codes: the node itself or the node whose codes it limits. Pending: the node of whose codes
  /// it is a function, element by element; index -1 if it is none.
  NodeId codes;
  /// Limits of the value, applied by the following requantization.
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();

  bool is_limited() const {
    return low > -std::numeric_limits<double>::infinity() ||
           high < std::numeric_limits<double>::infinity();
  }
  /// Returns this form with the value limited to [least, most] as well.
  IntegerForm limited(double least, double most) const {
    IntegerForm result = *this;
    result.low = std::clamp(low, least, most);
    result.high = std::clamp(high, least, most);
    return result;
  }
  /// True for codes without limits: valid operands of products, slices and maxima.
  bool is_plain_codes() const { return kind == IntegerKind::Codes && !is_limited(); }
  bool is_integer() const {
    return kind == IntegerKind::Codes || kind == IntegerKind::Accumulators ||
           kind == IntegerKind::Pending;
  }
};

}  // namespace qtape
