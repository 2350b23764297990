#include "qtape/integer/training/exact_parts.h"

#include <cmath>
#include <utility>

#include "qtape/integer/training/held_codes.h"
#include "qtape/kernels/quantize/quantize.h"

namespace qtape {

using namespace kernels;
namespace {

bool is_number(float v) { return v == v; }

}  // namespace

ExactForward::BoundOp::BoundOp(IntegerOp made, IntegerValue result, IntegerBinding binding,
                               IntegerValue* sums)
    : op(std::move(made)), output(std::move(result)), binding_(std::move(binding)) {
  binding_.output = &output;
  binding_.refreshed = true;
  const auto bind = [&] {
    std::visit([&](const auto& each) { kernels_.push_back(each.optimized(binding_)); }, op);
  };
  if (sums == nullptr) {
    bind();
    return;
  }
  const DType now = sums->type.dtype;
  for (const DType dtype : {DType::S32, DType::S64}) {
    sums->type.dtype = dtype;
    bind();
  }
  sums->type.dtype = now;
}

Fault ExactForward::BoundOp::run() {
  std::visit([&](const auto& each) { each.update(binding_, output); }, op);
  const bool second = kernels_.size() > 1 && binding_.in(0).type.dtype == DType::S64;
  const IntegerKernel& kernel = kernels_[second ? 1 : 0];
  if (kernel.load) {
    const Fault fault = kernel.load();
    if (fault.text != nullptr) return fault;
  }
  if (kernel.run) kernel.run();
  return {};
}

ExactForward::Operation::Operation(ExactForward& owner, const LoweredOp& lowered,
                                   IntegerValue result, std::byte* to)
    : owner_(owner),
      lowered_(lowered),
      inputs_(lowered.pieces.empty() ? owner.inputs_of(lowered) : Inputs{}),
      numbers_(lowered.numbers) {
  IntegerBinding binding{
      .result = to, .requantization = owner.requantization_, .threads = owner.threads_};
  add_pieces(binding);
  bind(std::move(result), std::move(binding));
}

void ExactForward::Operation::add_pieces(IntegerBinding& binding) {
  shaped_.reserve(lowered_.pieces.size());
  for (size_t k = 0; k < lowered_.pieces.size(); ++k) {
    // A view may lie between the piece and this op.
    const LoweredOp& piece = lowered_.pieces[k];
    const IntegerValue codes = codes_within(lowered_.grid, owner_.node(piece.node).type.shape);
    buffers_.emplace_back(codes.type.bytes());
    pieces_.push_back(
        std::make_unique<Operation>(owner_, piece, codes, buffers_.back().data()));
    shaped_.push_back(codes);
    shaped_.back().type.shape = owner_.node(lowered_.operands[k]).type.shape;
    binding.inputs.push_back(&shaped_.back());
    binding.operands.push_back(buffers_.back().data());
  }
}

void ExactForward::Operation::bind(IntegerValue result, IntegerBinding binding) {
  IntegerValue* sums = nullptr;
  shaped_.reserve(inputs_.operands.size());
  for (size_t k = 0; k < inputs_.operands.size(); ++k) {
    IntegerValue& value = inputs_.operands[k].source->value;
    shaped_.push_back(value);
    shaped_.back().type.shape = owner_.node(lowered_.operands[k]).type.shape;
    const IntegerKind kind = owner_.form(lowered_.operands[k]).kind;
    if (kind == IntegerKind::Indices) indices_.push_back(inputs_.operands[k].source);
    if (value.is_accumulators() && k == 0) sums = &value;
    binding.inputs.push_back(value.is_accumulators() ? &value : &shaped_.back());
    binding.operands.push_back(owner_.memory(owner_.form(lowered_.operands[k]).source));
  }
  if (inputs_.factors) binding.weights = &inputs_.factors->numbers;
  bound_ = std::make_unique<BoundOp>(emit(owner_.graph(), lowered_, numbers_),
                                     std::move(result), std::move(binding), sums);
  follows_grid_ = follows_grid(bound_->op);
}

bool ExactForward::Operation::is_ready() const {
  return inputs_.is_ready() &&
         std::ranges::all_of(pieces_, [](const auto& piece) { return piece->is_ready(); });
}

QParams<float> ExactForward::Operation::input_qparams() const {
  const IntegerValue& x = inputs_.operands[0].source->value;
  return {static_cast<float>(x.scales[0]), static_cast<float>(x.zero_point)};
}

void ExactForward::Operation::load_shaped() {
  for (size_t k = 0; k < shaped_.size(); ++k) {
    const IntegerValue& value =
        pieces_.empty() ? inputs_.operands[k].source->value : pieces_[k]->output();
    if (value.is_accumulators()) continue;
    shaped_[k].scales[0] = value.scales[0];
    shaped_[k].zero_point = value.zero_point;
  }
}

Fault ExactForward::Operation::check_indices() const {
  for (const ExactValue* each : indices_) {
    const auto* indices = reinterpret_cast<const int32_t*>(each->data);
    for (int64_t i = 0; i < each->value.type.elements(); ++i) {
      if (indices[i] >= 0 && indices[i] <= each->value.high) continue;
      return {"index {value} at position {index} is outside the table", i,
              static_cast<double>(indices[i])};
    }
  }
  return {};
}

Fault ExactForward::Operation::run_pieces(const QParams<float>& q) {
  for (const auto& piece : pieces_) {
    const Fault fault = piece->run(q);
    if (fault.text != nullptr) return fault;
  }
  return {};
}

Fault ExactForward::Operation::run(const QParams<float>& q) {
  Fault fault = run_pieces(q);
  if (fault.text != nullptr) return fault;
  fault = check_indices();
  if (fault.text != nullptr) return fault;
  load_shaped();
  if (inputs_.factors) {
    fault = inputs_.factors->load(shaped_[0], bound_->output);
    if (fault.text != nullptr) return fault;
  }
  if (follows_grid_) {
    numbers_.grid = lowered_.code_grid(q);
    bound_->op = emit(owner_.graph(), lowered_, numbers_);
  }
  if (lowered_.norm) {
    set_numbers(bound_->op, shaped_[0], numbers_of(*lowered_.norm, inputs_.norm.values));
  }
  return bound_->run();
}

bool ExactForward::NormLeaves::is_ready() const {
  return std::ranges::all_of(values, [](std::span<const float> each) {
    return std::ranges::all_of(each, [](float v) { return std::isfinite(v); });
  });
}

bool ExactForward::Factors::is_ready() const {
  return weight->exact && (bias == nullptr || std::all_of(bias, bias + outputs, is_number));
}

Fault ExactForward::Factors::load(const IntegerValue& x, IntegerValue& sums) {
  const auto* s_w = scales.scales<float>();
  const auto s_x = static_cast<float>(x.scales[0]);
  if (is_loaded(s_x)) return {};
  loaded_input_scale = 0;
  numbers.scales.assign(s_w, s_w + scales.channels);
  double largest = 0;
  for (int64_t c = 0; c < outputs; ++c) {
    const float scale = s_w[scales.channels == 1 ? 0 : c];
    const double accumulator = x.scales[0] * double{scale};
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
  const bool fits = size_of(x.type.dtype) == 1 &&
                    bound + static_cast<int64_t>(largest) <= Certificate::s32_limit;
  sums.type.dtype = fits ? DType::S32 : DType::S64;
  loaded_input_scale = s_x;
  if (bias != nullptr) loaded_bias.assign(bias, bias + outputs);
  return {};
}

bool ExactForward::Factors::is_loaded(float s_x) const {
  const auto* s_w = scales.scales<float>();
  const auto same = [](const std::vector<float>& a, const float* b) {
    return std::equal(a.begin(), a.end(), b);
  };
  return loaded_input_scale == s_x && same(numbers.scales, s_w) && same(loaded_bias, bias);
}

}  // namespace qtape
