// The closed list of ops. To add one: its include and its alternative, here; nothing else.
#pragma once

#include <variant>

#include "qtape/ops/clamp.h"
#include "qtape/ops/exp.h"
#include "qtape/ops/fake_quantize.h"
#include "qtape/ops/gelu.h"
#include "qtape/ops/leaky_relu.h"
#include "qtape/ops/leaves.h"
#include "qtape/ops/log.h"
#include "qtape/ops/matmul.h"
#include "qtape/ops/neg.h"
#include "qtape/ops/relu.h"
#include "qtape/ops/sigmoid.h"
#include "qtape/ops/sqrt.h"
#include "qtape/ops/tanh.h"

namespace qtape {

using Op = std::variant<Input, Parameter, State, Constant,               //
                        MatMul,                                          //
                        Neg, Relu, LeakyRelu, Sigmoid, Tanh, Gelu, Exp,  //
                        Log, Sqrt, Clamp,                                //
                        FakeQuantize>;

/// The op's name, as in files and messages.
inline std::string_view name_of(const Op& op) {
  return std::visit([](const auto& each) { return std::decay_t<decltype(each)>::name; }, op);
}

}  // namespace qtape
