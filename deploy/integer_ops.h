// The closed list of ops of integer programs. To add one: its include and its alternative,
// here.
#pragma once

#include <variant>

#include "qtape/deploy/ops/add.h"
#include "qtape/deploy/ops/dequantize.h"
#include "qtape/deploy/ops/input.h"
#include "qtape/deploy/ops/linear.h"
#include "qtape/deploy/ops/quantize.h"
#include "qtape/deploy/ops/reduce.h"
#include "qtape/deploy/ops/requantize.h"
#include "qtape/deploy/ops/structure.h"

namespace qtape {

using IntegerOp =
    std::variant<integer::Input, integer::Quantize, integer::Linear, integer::Requantize,
                 integer::Add, integer::Concat, integer::Slice, integer::Reshape, integer::Max,
                 integer::Sum, integer::Dequantize>;

/// The op's name, as in files and messages.
inline std::string_view name_of(const IntegerOp& op) {
  return std::visit([](const auto& each) { return std::decay_t<decltype(each)>::name; }, op);
}

}  // namespace qtape
