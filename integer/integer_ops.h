// The closed list of ops of integer programs. To add one: its include and its alternative,
// here.
#pragma once

#include <optional>
#include <string>
#include <variant>

#include "qtape/integer/ops/avg_pool.h"
#include "qtape/integer/ops/conv.h"
#include "qtape/integer/ops/dequantize.h"
#include "qtape/integer/ops/input.h"
#include "qtape/integer/ops/linear.h"
#include "qtape/integer/ops/lookup.h"
#include "qtape/integer/ops/pad.h"
#include "qtape/integer/ops/pairs.h"
#include "qtape/integer/ops/quantize.h"
#include "qtape/integer/ops/reduce.h"
#include "qtape/integer/ops/requantize.h"
#include "qtape/integer/ops/structure.h"
#include "qtape/ops/max_pool.h"
#include "qtape/ops/upsample.h"

namespace qtape {

/// The list, as a variant.
using IntegerOpAlternatives =
    std::variant<integer::Input, integer::Quantize, integer::Linear, integer::Conv,
                 integer::Requantize, integer::Lookup, integer::Add, integer::Sub, integer::Mul,
                 integer::Concat, integer::Slice, integer::Reshape, integer::Structure<MaxPool>,
                 integer::Structure<Upsample>, integer::Pad, integer::Max, integer::Sum,
                 integer::AvgPool, integer::Dequantize>;

/// One of the integer ops, compiled once as Op is.
struct IntegerOp : IntegerOpAlternatives {
  using IntegerOpAlternatives::IntegerOpAlternatives;
  IntegerOp();
  IntegerOp(const IntegerOp&);
  IntegerOp(IntegerOp&&) noexcept;
  IntegerOp& operator=(const IntegerOp&);
  IntegerOp& operator=(IntegerOp&&) noexcept;
  ~IntegerOp();
  bool operator==(const IntegerOp& other) const;
};

/// The op's name, as in files and messages.
std::string_view name_of(const IntegerOp& op);

/// Whether it can hand its products on while they are in cache.
bool takes_epilogue(const IntegerOp& op);
/// Whether it can take what another one hands on.
bool has_epilogue(const IntegerOp& op);
/// Where its result may lie.
Placement placement_of(const IntegerOp& op);

/// The grid of the codes that it makes, or null where these have that of an operand.
const CodeGrid* grid_of(const IntegerOp& op);
/// The constant weights that the op multiplies by, or null.
const QuantizedWeights* weights_of(const IntegerOp& op);
/// How it multiplies codes `x` and why, on `path` if it is given; empty where it does not.
std::string explain(const IntegerOp& op, const IntegerValue& x,
                    std::optional<ProductPath> path);
/// What the weights multiply of the codes `x`: with padding, the zero point as well.
IntegerValue factors_of(const IntegerOp& op, const IntegerValue& x);

}  // namespace qtape
