// What a node of a graph is in integers.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "qtape/engine/graph.h"

namespace qtape {

enum class IntegerKind : uint8_t {
  Float,         ///< no integers
  Weight,        ///< codes of what depends on no input
  Codes,         ///< (q - zp) s with the codes q of a quantizer of one scale
  Accumulators,  ///< S[c] times a sum of codes or of products of codes; c is the index of the
                 ///< last axis
  Pending        ///< integers once a quantizer gives them a grid
};

/// The integers of one node. Views share those of their operand, in the same order.
struct IntegerForm {
  IntegerKind kind = IntegerKind::Float;
  /// The node whose integers they are: with Codes and Weight a quantizer or an op that gives
  /// some codes of it, with Accumulators and Pending the op that has them.
  NodeId source;
  NodeId quantizer;  ///< Codes and Weight: whose scales they have
  NodeId product;    ///< Accumulators of products: the op that multiplies, which source may be
  NodeId bias;       ///< of these: what is added, before it is rounded; depends on no input
  /// Limits of the value, which are left to what requantizes.
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();

  bool is_limited() const {
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
  bool is_plain_codes() const { return kind == IntegerKind::Codes && !is_limited(); }
  bool is_integer() const {
    return kind == IntegerKind::Codes || kind == IntegerKind::Accumulators ||
           kind == IntegerKind::Pending;
  }
};

}  // namespace qtape
