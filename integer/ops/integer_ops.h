// The closed list of ops of integer programs. To add an op, add its include and its alternative
// here.
#pragma once

#include <optional>
#include <string>
#include <variant>

#include "qtape/integer/ops/arg_max.h"
#include "qtape/integer/ops/avg_pool.h"
#include "qtape/integer/ops/constant.h"
#include "qtape/integer/ops/conv.h"
#include "qtape/integer/ops/dequantize.h"
#include "qtape/integer/ops/embedding.h"
#include "qtape/integer/ops/input.h"
#include "qtape/integer/ops/interpolate.h"
#include "qtape/integer/ops/linear.h"
#include "qtape/integer/ops/lookup.h"
#include "qtape/integer/ops/matmul.h"
#include "qtape/integer/ops/mean_pool.h"
#include "qtape/integer/ops/normalize.h"
#include "qtape/integer/ops/pad.h"
#include "qtape/integer/ops/pairs.h"
#include "qtape/integer/ops/quantize.h"
#include "qtape/integer/ops/reduce.h"
#include "qtape/integer/ops/requantize.h"
#include "qtape/integer/ops/softmax.h"
#include "qtape/integer/ops/structure.h"

namespace qtape {

/// The closed list as a variant.
using IntegerOpAlternatives =
    std::variant<integer::Input, integer::Quantize, integer::Linear, integer::Conv,
                 integer::MatMul, integer::Requantize, integer::Lookup, integer::Add,
                 integer::Sub, integer::Mul, integer::Constant, integer::Maximum,
                 integer::Minimum, integer::Concat, integer::Slice, integer::Gather,
                 integer::Reshape, integer::Transpose, integer::Structure<MaxPool>,
                 integer::Structure<Upsample>, integer::Pad, integer::Max, integer::Sum,
                 integer::AvgPool, integer::MeanPool, integer::Interpolate, integer::Normalize,
                 integer::Softmax, integer::ArgMax, integer::Embedding, integer::Dequantize>;

/// One of the integer ops; its members are compiled once, as those of Op are.
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

/// Returns the op's name, as used in files and messages.
std::string_view name_of(const IntegerOp& op);

/// True if the op can pass its products to an epilogue while they are in cache.
bool takes_epilogue(const IntegerOp& op);
/// True if the op provides an epilogue.
bool has_epilogue(const IntegerOp& op);
/// Returns the memory in which the result may be placed.
Placement placement_of(const IntegerOp& op);

/// Returns the grid of the codes that the op writes, or null if they have the grid of an
/// operand.
const CodeGrid* grid_of(const IntegerOp& op);
/// True if the op stores the grid of its result, or codes on that grid.
bool follows_grid(const IntegerOp& op);
/// Returns the constant weights of the op, or null.
const QuantizedWeights* weights_of(const IntegerOp& op);
/// Sets the numbers of a norm for codes `x`; does nothing for other ops. Does not allocate.
void set_numbers(IntegerOp& op, const IntegerValue& x, const integer::NormNumbers& numbers);
/// Explains how the op multiplies codes `x` and why, on `path` if given; empty if the op has no
/// products.
std::string explain(const IntegerOp& op, const IntegerValue& x,
                    std::optional<ProductPath> path);
/// Returns the codes that the weights multiply: `x`, extended by its zero point if there is
/// padding.
IntegerValue factors_of(const IntegerOp& op, const IntegerValue& x);

}  // namespace qtape
