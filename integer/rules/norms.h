// Norms: LayerNorm, GroupNorm, RmsNorm and L2Normalize normalize codes by their own statistics.
// BatchNorm has no integer form: it must be folded into the preceding product.
#pragma once

#include "qtape/integer/rules/rule.h"

namespace qtape {

template <>
struct IntegerRule<BatchNorm> {
  static Verdict classify(const BatchNorm&, const Operands&) {
    return refusal("has no integer form",
                   "fold it into the product before it: qtape fold, or fold_batch_norm");
  }
};

/// Requires plain codes, leaves for the other operands, and few enough elements in each set.
Verdict classify_norm(const Operands& operands, const integer::Normalize& op);
/// Returns `op` with numbers of c channels, which are set later.
integer::Normalize with_channels(integer::Normalize op, int64_t channels);

template <>
struct IntegerRule<LayerNorm> {
  static Verdict classify(const LayerNorm&, const Operands& operands) {
    return classify_norm(operands, {});
  }
  static IntegerOp emit(const LayerNorm&, const Numbers& numbers) {
    return with_channels({}, numbers.x[-1]);
  }
  static integer::NormNumbers norm(const LayerNorm& op) { return {.eps = op.eps}; }
};

template <>
struct IntegerRule<GroupNorm> {
  static Verdict classify(const GroupNorm& op, const Operands& operands) {
    return classify_norm(operands, {.groups = op.groups, .joint = true});
  }
  static IntegerOp emit(const GroupNorm& op, const Numbers& numbers) {
    return with_channels({.groups = op.groups, .joint = true}, numbers.x[-1]);
  }
  static integer::NormNumbers norm(const GroupNorm& op) { return {.eps = op.eps}; }
};

template <>
struct IntegerRule<RmsNorm> {
  static Verdict classify(const RmsNorm&, const Operands& operands) {
    return classify_norm(operands, {.centered = false});
  }
  static IntegerOp emit(const RmsNorm&, const Numbers& numbers) {
    return with_channels({.centered = false}, numbers.x[-1]);
  }
  static integer::NormNumbers norm(const RmsNorm& op) { return {.eps = op.eps}; }
};

template <>
struct IntegerRule<L2Normalize> {
  static Verdict classify(const L2Normalize&, const Operands& operands) {
    return classify_norm(operands, {.centered = false});
  }
  static IntegerOp emit(const L2Normalize&, const Numbers& numbers) {
    return with_channels({.centered = false}, numbers.x[-1]);
  }
  static integer::NormNumbers norm(const L2Normalize& op) {
    return {.eps = op.eps, .limits = true};
  }
};

}  // namespace qtape
