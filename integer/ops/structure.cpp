#include "qtape/integer/ops/structure.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "qtape/integer/core/integer_binding.h"

namespace qtape::integer {
namespace {

std::vector<TensorType> types_of(IntegerInputs inputs) {
  std::vector<TensorType> types;
  for (const IntegerValue& input : inputs) types.push_back(input.type);
  return types;
}

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

void check_one_grid(IntegerInputs inputs) {
  for (const IntegerValue& input : inputs) {
    check_codes(input, "each operand");
    check(input.scales == inputs[0].scales && input.zero_point == inputs[0].zero_point,
          "operands must be codes of one grid, got scale {} zero point {} and scale {} zero "
          "point {}",
          inputs[0].scales[0], inputs[0].zero_point, input.scales[0], input.zero_point);
  }
}

IntegerValue structure_value(IntegerInputs inputs, size_t count, Takes takes,
                             const std::function<TensorType(Inputs)>& infer) {
  check_operands(inputs, count);
  if (takes == Takes::Codes) check_one_grid(inputs);
  if (takes == Takes::Indices && !is_indices(inputs[0])) check_one_grid(inputs);
  check(takes != Takes::Floats || inputs[0].scales.size() <= 1,
        "accumulators have {} scales, one for each channel: their axes cannot be permuted",
        inputs[0].scales.size());
  const auto types = types_of(inputs);
  IntegerValue y = inputs[0];
  y.type = infer(types);
  if (takes == Takes::All) check_channels(inputs[0], y.type.shape);
  for (const IntegerValue& input : inputs) {
    y.low = std::min(y.low, input.low);
    y.high = std::max(y.high, input.high);
  }
  return y;
}

void update_structure(const IntegerBinding& b, IntegerValue& y) {
  std::ranges::copy(b.in(0).scales, y.scales.begin());
  y.zero_point = b.in(0).zero_point;
  y.low = b.in(0).low;
  y.high = b.in(0).high;
  for (const IntegerValue* input : b.inputs) {
    y.low = std::min(y.low, input->low);
    y.high = std::max(y.high, input->high);
  }
}

IntegerKernel structure_kernel(const IntegerBinding& b,
                               const std::function<Kernel(const Binding&)>& forward) {
  std::vector<TensorType> types;
  for (const IntegerValue* input : b.inputs) types.push_back(input->type);
  Binding binding;
  binding.inputs = types;
  binding.output = b.out().type;
  binding.operands = b.operands;
  binding.result = b.result;
  binding.threads = b.threads;
  Kernel kernel = forward(binding);
  if (!kernel) return {};
  return {.run = [kernel = std::move(kernel)] { kernel(Step{}); }};
}

}  // namespace qtape::integer
