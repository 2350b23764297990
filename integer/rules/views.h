// Reshape, Flatten, StopGradient, Dropout and BatchNormCorrection: the integers of the operand,
// unchanged. The last two change values only in training, and have no integers while they do.
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
template <>
struct IntegerRule<BatchNormCorrection> : ViewRule<BatchNormCorrection> {};

}  // namespace qtape
