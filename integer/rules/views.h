// Reshape, Flatten, StopGradient and Dropout: the integers of the operand, as they are. Dropout
// changes values in training alone, and takes their integers away while it does.
#pragma once

#include "qtape/integer/rules/rule.h"

namespace qtape {

template <class X>
struct ViewRule {
  static constexpr bool view = true;
  static Verdict classify(const X&, const Operands&) { return {.is = Verdict::Is::Operand}; }
};

template <>
struct IntegerRule<Reshape> : ViewRule<Reshape> {};
template <>
struct IntegerRule<Flatten> : ViewRule<Flatten> {};
template <>
struct IntegerRule<StopGradient> : ViewRule<StopGradient> {};
template <>
struct IntegerRule<Dropout> : ViewRule<Dropout> {};

}  // namespace qtape
