#include "qtape/integer/ops/structure.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "qtape/integer/core/integer_binding.h"
#include "qtape/ops/max_pool.h"
#include "qtape/ops/upsample.h"

namespace qtape::integer {
namespace {

std::vector<TensorType> types_of(IntegerInputs inputs) {
  std::vector<TensorType> types;
  for (const IntegerValue& input : inputs) types.push_back(input.type);
  return types;
}

/// Checks that all operands have the same grid, without which their codes cannot be combined.
void check_one_grid(IntegerInputs inputs) {
  for (const IntegerValue& input : inputs) {
    check_codes(input, "each operand");
    check(input.scales == inputs[0].scales && input.zero_point == inputs[0].zero_point,
          "operands must be codes of one grid, got scale {} zero point {} and scale {} zero "
          "point {}",
          inputs[0].scales[0], inputs[0].zero_point, input.scales[0], input.zero_point);
  }
}

/// True if Op accepts accumulators and floats in addition to codes.
template <class Op>
constexpr bool takes_all = std::is_same_v<Op, qtape::Reshape>;

/// Checks that the last axis, to which scales of channels belong, is kept.
void check_channels(const IntegerValue& x, const Shape& y) {
  const bool kept = y.rank() > 0 && y[-1] == x.type.shape[-1];
  check(
      x.scales.size() <= 1 || kept,
      "accumulators have {} scales, one for each channel: the last axis must be preserved, got "
      "{} for {}",
      x.scales.size(), to_string(y), to_string(x.type.shape));
}

}  // namespace

template <class Op>
IntegerValue Structure<Op>::infer(IntegerInputs inputs) const {
  check_operands(inputs, this->slots().size());
  if constexpr (!takes_all<Op>) check_one_grid(inputs);
  const auto types = types_of(inputs);
  IntegerValue y = inputs[0];
  y.type = Op::infer(types);
  if constexpr (takes_all<Op>) check_channels(inputs[0], y.type.shape);
  for (const IntegerValue& input : inputs) {
    y.low = std::min(y.low, input.low);
    y.high = std::max(y.high, input.high);
  }
  return y;
}

template <class Op>
void Structure<Op>::update(const IntegerBinding& b, IntegerValue& y) const {
  std::ranges::copy(b.in(0).scales, y.scales.begin());
  y.zero_point = b.in(0).zero_point;
  y.low = b.in(0).low;
  y.high = b.in(0).high;
  for (const IntegerValue* input : b.inputs) {
    y.low = std::min(y.low, input->low);
    y.high = std::max(y.high, input->high);
  }
}

template <class Op>
IntegerKernel Structure<Op>::kernel(const IntegerBinding& b) const {
  std::vector<TensorType> types;
  for (const IntegerValue* input : b.inputs) types.push_back(input->type);
  Binding binding;
  binding.inputs = types;
  binding.output = b.out().type;
  binding.operands = b.operands;
  binding.result = b.result;
  binding.threads = b.threads;
  Kernel kernel = this->forward(binding);
  if (!kernel) return {};
  return {.run = [kernel = std::move(kernel)] { kernel(Step{}); }};
}

template struct Structure<qtape::Concat>;
template struct Structure<qtape::Slice>;
template struct Structure<qtape::Reshape>;
template struct Structure<qtape::MaxPool>;
template struct Structure<qtape::Upsample>;
static_assert(IntegerCompute<Concat> && IntegerCompute<Slice> && IntegerCompute<Reshape> &&
              IntegerCompute<Structure<qtape::MaxPool>> &&
              IntegerCompute<Structure<qtape::Upsample>>);

}  // namespace qtape::integer
