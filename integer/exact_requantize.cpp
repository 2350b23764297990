#include "qtape/integer/exact_requantize.h"

#include <algorithm>

#include "qtape/engine/quantizers.h"
#include "qtape/integer/code_flow.h"
#include "qtape/kernels/simd/threads.h"

namespace qtape {

using namespace kernels;
namespace {

constexpr int64_t requantize_grain = 2048;

/// What keeps values of these scales from being added, see are_addable.
Fault addition_fault(double a, double b, double output) {
  for (double scale : {a, b, output}) {
    if (!are_addable(scale, scale, scale)) {
      return {
          "accumulators in integers need scales that are normal f32 below 2^100; one is "
          "{value}",
          0, scale};
    }
  }
  const auto [smallest, largest] = std::minmax({a, b, output});
  return {
      "the scales of two summands and their sum must be less than 2^64 times apart; the "
      "largest is {value} times the smallest",
      0, largest / smallest};
}

}  // namespace

ExactRequantization::ExactRequantization(const Graph& graph, const IntegerAnalysis& analysis,
                                         NodeId x, const Grid& grid,
                                         Requantization requantization, int threads,
                                         const Find& find)
    : grid_(grid), requantization_(requantization), threads_(threads) {
  const IntegerForm& form = analysis[x];
  const Node& source = graph[form.source];
  const auto* concat = std::get_if<Concat>(&source.op);
  if (concat == nullptr) {
    add_part(graph, x, form, find);
    parts_[0].elements = parts_[0].width = parts_[0].stride = source.type.elements();
    return;
  }
  whole_ = find(x);
  const int axis = resolve_axis(concat->axis, source.type.shape);
  const AxisView whole = axis_view(source.type.shape, axis);
  int64_t offset = 0;
  for (NodeId operand : source.operands) {
    const IntegerForm piece = analysis[operand].limited(form.low, form.high);
    add_part(graph, operand, piece, find);
    const AxisView view = axis_view(graph[operand].type.shape, axis);
    Part& part = parts_.back();
    part.elements = graph[operand].type.elements();
    part.width = std::max<int64_t>(1, view.channels * view.inner);
    part.stride = whole.channels * whole.inner;
    part.offset = offset;
    offset += view.channels * view.inner;
  }
}

void ExactRequantization::add_part(const Graph& graph, NodeId x, const IntegerForm& form,
                                   const Find& find) {
  Part part{.kind = form.kind, .low = form.low, .high = form.high, .operands = {find(x)}};
  if (form.kind == IntegerKind::Blend) {
    const std::vector<NodeId>& operands = graph[form.source].operands;
    for (NodeId operand : operands) part.operands.push_back(find(operand));
    part.a = part.operands[1].value;
    part.b = part.operands[2].value;
  } else {
    part.a = part.operands[0].value;
    part.multipliers.resize(part.a->scales.size());
  }
  parts_.push_back(std::move(part));
}

bool ExactRequantization::is_exact() const {
  return whole_.is_exact() && std::ranges::all_of(parts_, [](const Part& part) {
           return std::ranges::all_of(part.operands, &ExactOperand::is_exact);
         });
}

bool ExactRequantization::load(Part& part, const QParams<float>& q, NodeStatus& status) const {
  const double s_y = q.scale;
  for (size_t c = 0; c < part.multipliers.size(); ++c) {
    if (!are_scales(part.a->scales[c], s_y)) {
      status.fault = {
          "integers need accumulators of a normal f32 scale; that of channel {index} is "
          "{value}",
          static_cast<int64_t>(c), part.a->scales[c]};
      return false;
    }
    part.multipliers[c] = multiplier_of(part.a->scales[c], s_y);
  }
  if (part.kind != IntegerKind::Blend) return true;
  const double a = part.a->scales[0];
  const double b = part.b->scales[0];
  if (!are_addable(a, b, s_y)) {
    status.fault = addition_fault(a, b, s_y);
    return false;
  }
  part.sum = add_multiplier_of(a, b, s_y, part.a->wide || part.b->wide);
  return true;
}

int32_t ExactRequantization::steps(const Part& part, int64_t i, size_t channel) const {
  switch (part.kind) {
    case IntegerKind::Accumulators:
      return requantize(part.a->accumulators[static_cast<size_t>(i)], part.multipliers[channel],
                        requantization_, part.a->wide ? Accumulator::S64 : Accumulator::S32);
    case IntegerKind::Blend:
      return requantize_add(static_cast<int32_t>(part.a->code()[i]),
                            static_cast<int32_t>(part.b->code()[i]), part.sum, requantization_);
    default:
      return requantize(static_cast<int64_t>(part.a->code()[i]), part.multipliers[0],
                        requantization_);
  }
}

void ExactRequantization::run_part(const Part& part, const QParams<float>& q, float* codes,
                                   float* y) const {
  const CodeLimits limits = clamped_limits(part.low, part.high, q, grid_);
  const auto zero_point = static_cast<int64_t>(q.zero_point);
  parallel_for(threads_, part.elements, 16, requantize_grain, [&](int64_t begin, int64_t end) {
    const size_t channels = std::max<size_t>(1, part.multipliers.size());
    size_t channel = static_cast<size_t>(begin) % channels;
    int64_t column = begin % part.width;
    int64_t to = begin / part.width * part.stride + part.offset + column;
    for (int64_t i = begin; i < end; ++i) {
      const int64_t code =
          std::clamp<int64_t>(steps(part, i, channel) + zero_point, limits.q_min, limits.q_max);
      const auto centered = static_cast<float>(code - zero_point);
      codes[to] = centered;
      y[to] = centered * q.scale;
      channel = channel + 1 == channels ? 0 : channel + 1;
      ++to;
      if (++column == part.width) {
        column = 0;
        to += part.stride - part.width;
      }
    }
  });
}

bool ExactRequantization::run(const QParams<float>& q, float* codes, float* y,
                              NodeStatus& status) {
  for (Part& part : parts_) {
    if (!load(part, q, status)) return false;
  }
  for (const Part& part : parts_) run_part(part, q, codes, y);
  return true;
}

}  // namespace qtape
