#include "qtape/integer/training/exact_parts.h"

#include <cmath>

#include "qtape/kernels/quantize/quantize.h"

namespace qtape {

using namespace kernels;
namespace {

bool is_number(float v) { return v == v; }

}  // namespace

ExactForward::Operation::Operation(IntegerOp made, std::vector<const IntegerValue*> inputs,
                                   IntegerValue result, std::vector<std::byte*> operands,
                                   std::byte* to, Requantization requantization, int threads,
                                   const WeightNumbers* weights)
    : op_(std::move(made)), output_(std::move(result)) {
  binding_ = {.inputs = std::move(inputs),
              .output = &output_,
              .operands = std::move(operands),
              .result = to,
              .requantization = requantization,
              .threads = threads,
              .weights = weights,
              .refreshed = true};
  std::visit([&](const auto& op) { kernel_ = op.kernel(binding_); }, op_);
}

void ExactForward::Operation::set_grid(const CodeGrid& grid) {
  std::visit(
      [&]<class X>(X& op) {
        if constexpr (requires { op.grid; }) op.grid = grid;
      },
      op_);
}

void ExactForward::Operation::refresh(const Op& op, const Numbers& numbers) {
  const bool follows = std::visit(
      []<class X>(const X&) {
        return requires(X x) { x.grid; }
        || requires(X x) { x.code; };
      },
      op_);
  if (!follows) return;
  const IntegerOp fresh = emit(op, numbers);
  std::visit(
      [&]<class X>(const X& each) {
        if constexpr (requires { each.grid; }) set_grid(each.grid);
        if constexpr (requires { each.code; }) std::get<X>(op_).code = each.code;
      },
      fresh);
}

Fault ExactForward::Operation::run() {
  std::visit([&](const auto& op) { op.update(binding_, output_); }, op_);
  if (kernel_.load) {
    const Fault fault = kernel_.load();
    if (fault.text != nullptr) return fault;
  }
  if (kernel_.run) kernel_.run();
  return {};
}

bool ExactForward::Product::is_ready() const {
  return x.is_exact() && weight->exact &&
         (bias == nullptr || std::all_of(bias, bias + outputs, is_number));
}

Fault ExactForward::Product::load() {
  shaped.scales[0] = x.value->scales[0];
  shaped.zero_point = x.value->zero_point;
  const auto* s_w = scales.scales<float>();
  const auto s_x = static_cast<float>(x.value->scales[0]);
  if (is_loaded(s_x)) return {};
  loaded_input_scale = 0;
  numbers.scales.assign(s_w, s_w + scales.channels);
  double largest = 0;
  for (int64_t c = 0; c < outputs; ++c) {
    const float scale = s_w[scales.channels == 1 ? 0 : c];
    const double accumulator = x.value->scales[0] * double{scale};
    if (!are_scales(accumulator, 1)) {
      return {
          "accumulators need scales that are normal f32; that of channel {index} is "
          "{value}",
          c, accumulator};
    }
    if (bias == nullptr) continue;
    const double code = bias_code(bias[c], s_x, scale);
    numbers.bias[static_cast<size_t>(c)] = static_cast<int32_t>(code);
    largest = std::max(largest, std::fabs(code));
  }
  const bool fits = size_of(x.value->type.dtype) == 1 &&
                    bound + static_cast<int64_t>(largest) <= Certificate::s32_limit;
  operation->output().type.dtype = fits ? DType::S32 : DType::S64;
  loaded_input_scale = s_x;
  if (bias != nullptr) loaded_bias.assign(bias, bias + outputs);
  return {};
}

bool ExactForward::Product::is_loaded(float s_x) const {
  const auto* s_w = scales.scales<float>();
  const auto same = [](const std::vector<float>& a, const float* b) {
    return std::equal(a.begin(), a.end(), b);
  };
  return loaded_input_scale == s_x && same(numbers.scales, s_w) && same(loaded_bias, bias);
}

}  // namespace qtape
