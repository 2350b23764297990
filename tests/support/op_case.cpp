#include "qtape/tests/support/op_case.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "qtape/engine/quantizers.h"

namespace qtape::test {
namespace {

double drawn(const Operand& operand, size_t k, double u) {
  using Limits = std::numeric_limits<float>;
  const std::array<double, 8> special = {
      Limits::quiet_NaN(),  Limits::infinity(), -Limits::infinity(), 0.0, -0.0,
      Limits::denorm_min(), Limits::max(),      -Limits::max()};
  const double x = operand.low + (operand.high - operand.low) * u;
  switch (operand.fill) {
    case Fill::Uniform:
      return x;
    case Fill::Integers:
      return std::floor(x);
    case Fill::Halves:
      return std::floor(2 * x) / 2;
    case Fill::Special:
      return k % 2 == 0 ? special[k / 2 % special.size()] : x;
  }
  return x;
}

Array filled(const Operand& operand, DType run, size_t number) {
  DType dtype = operand.dtype.value_or(run);
  if (operand.scales) dtype = scale_dtype(dtype);
  Array result{{dtype, operand.shape}, {}};
  if (!operand.sources.empty()) {
    for (double each : operand.sources) {
      result.values.push_back(stored(each, scale_dtype(dtype)));
    }
    return result;
  }
  const Random random(17, number);
  for (size_t k = 0; k < static_cast<size_t>(operand.shape.elements()); ++k) {
    const double x = operand.values.empty() ? drawn(operand, k, random.uniform(k))
                                            : operand.values[k % operand.values.size()];
    result.values.push_back(stored(x, dtype));
  }
  return result;
}

/// x -> quantizer -> op -> quantizer; operands of the same shape share an input.
NodeId quantized_net(Graph& graph, const OpUse& use) {
  const auto slots = slots_of(use.op);
  std::vector<NodeId> operands;
  std::vector<std::pair<TensorType, NodeId>> inputs;
  for (size_t i = 0; i < use.operands.size(); ++i) {
    const Operand& operand = use.operands[i];
    const TensorType type{operand.dtype.value_or(DType::F32), operand.shape};
    const std::string label = "x" + std::to_string(i);
    if (slots[i].access == Access::ReadWrite) {
      operands.push_back(graph.add(State{.shape = type.shape, .value = 0.25}, {}, label));
      continue;
    }
    auto known = std::ranges::find(inputs, type, &std::pair<TensorType, NodeId>::first);
    if (known == inputs.end()) {
      const Input input{
          .dtype = type.dtype, .shape = type.shape, .batch = type.shape.rank() > 0};
      inputs.emplace_back(type, graph.add(input, {}, label));
      known = inputs.end() - 1;
    }
    const bool quantized = slots[i].differentiable && type.dtype == DType::F32;
    operands.push_back(quantized ? add_quantizer(graph, known->second, ema, label + "q")
                                 : known->second);
  }
  const NodeId y = graph.add(use.op, operands, "y");
  const bool is_f32 = graph[y].type.dtype == DType::F32;
  graph.set_outputs({is_f32 ? add_quantizer(graph, y, ema, "output") : y});
  return y;
}

std::function<NodeId(Graph&)> net_of(const OpUse& use) {
  return [use](Graph& graph) { return quantized_net(graph, use); };
}

}  // namespace

Operand scales(const Values& values) {
  return {.shape = {static_cast<int64_t>(values.size())}, .scales = true, .values = values};
}

Operand integers(DType dtype, const Shape& shape, double low, double high) {
  return {.shape = shape, .low = low, .high = high, .fill = Fill::Integers, .dtype = dtype};
}

IntegerVerdict converts(const OpUse& use) { return {.net = net_of(use)}; }
IntegerVerdict converts(std::function<NodeId(Graph&)> net) { return {.net = std::move(net)}; }
IntegerVerdict refused(std::string text, const OpUse& use) {
  return {.refusal = std::move(text), .net = net_of(use)};
}
IntegerVerdict refused(std::string text, std::function<NodeId(Graph&)> net) {
  return {.refusal = std::move(text), .net = std::move(net)};
}

IntegerVerdict converts_on_grids(const Shape& shape, const std::vector<Op>& ops, bool summed) {
  return converts([=](Graph& graph) {
    const NodeId x = graph.add(Input{.shape = shape}, {}, "x");
    std::vector<NodeId> results;
    NodeId first;
    const auto quantized = [&](NodeId y) {
      const NodeId q = add_quantizer(graph, y, ema, "y" + std::to_string(results.size()));
      results.push_back(graph.add(Flatten{}, {q}));
    };
    for (const FakeQuantize& grid : {ema, affine_ema, ema.with(&FakeQuantize::bits, 16)}) {
      const NodeId codes = add_quantizer(graph, x, grid, "q" + std::to_string(results.size()));
      for (const Op& op : ops) {
        const NodeId y = graph.add(op, {codes});
        if (results.empty()) first = y;
        quantized(y);
        if (summed) quantized(graph.add(Sum{.axes = {2}, .keep_dims = true}, {y}));
      }
    }
    const Concat join{.axis = 1, .count = static_cast<int>(results.size())};
    graph.set_outputs({add_quantizer(graph, graph.add(join, results), ema, "output")});
    return first;
  });
}

void refuse(OpCase& c, const std::vector<TensorType>& operands,
            const std::vector<std::pair<Op, std::string>>& rows) {
  for (const auto& [op, text] : rows) c.refusals.push_back({op, operands, text});
}

void refuse(OpCase& c, const Op& op,
            const std::vector<std::pair<std::vector<TensorType>, std::string>>& rows) {
  for (const auto& [operands, text] : rows) c.refusals.push_back({op, operands, text});
}

std::vector<OpCase> op_cases() {
  std::vector<OpCase> all;
  for (const auto& family :
       {leaf_cases, broadcast_cases, convolution_cases, pointwise_cases, structure_cases,
        move_cases, reduction_cases, window_cases, norm_cases, quantizer_cases}) {
    std::ranges::move(family(), std::back_inserter(all));
  }
  return all;
}

std::vector<Values> passes(const OpUse&, Arrays, const Array& dy) { return {dy.values}; }

std::vector<Array> make_operands(const OpUse& use, DType dtype) {
  std::vector<Array> operands;
  for (size_t i = 0; i < use.operands.size(); ++i) {
    operands.push_back(filled(use.operands[i], dtype, i));
  }
  return operands;
}

std::vector<TensorType> types_of(Arrays arrays) {
  std::vector<TensorType> types;
  for (const Array& each : arrays) types.push_back(each.type);
  return types;
}

OpRun make_run(const OpUse& use, Arrays operands, RunOptions options) {
  std::vector<Values> values;
  for (const Array& each : operands) values.push_back(each.values);
  options.mode = use.mode;
  return {use.op, types_of(operands), values, options};
}

std::vector<int64_t> unravel(int64_t index, const Shape& shape) {
  std::vector<int64_t> at(static_cast<size_t>(shape.rank()));
  for (int i = shape.rank() - 1; i >= 0; --i) {
    at[static_cast<size_t>(i)] = index % shape[i];
    index /= shape[i];
  }
  return at;
}

size_t ravel(std::span<const int64_t> at, const Shape& shape) {
  int64_t index = 0;
  const size_t skipped = at.size() - static_cast<size_t>(shape.rank());
  for (int i = 0; i < shape.rank(); ++i) {
    const int64_t extent = shape[i];
    index = index * extent + (extent == 1 ? 0 : at[skipped + static_cast<size_t>(i)]);
  }
  return static_cast<size_t>(index);
}

size_t exact_index(std::span<const int64_t> at, const Shape& shape) {
  int64_t index = 0;
  for (int i = 0; i < shape.rank(); ++i) index = index * shape[i] + at[static_cast<size_t>(i)];
  return static_cast<size_t>(index);
}

Array mapped(const Array& x, const std::function<double(double)>& f) {
  Array y = x;
  for (double& each : y.values) each = f(each);
  return y;
}

WindowAxis window_axis(int64_t in, int64_t kernel, int64_t stride, int64_t dilation,
                       Padding padding, int64_t begin, int64_t end) {
  const int64_t span = (kernel - 1) * dilation + 1;
  int64_t out = 0;
  if (padding == Padding::Same) {
    while (out * stride < in) ++out;
    int64_t total = 0;
    while (in + total < (out - 1) * stride + span) ++total;
    begin = total / 2;
  } else {
    for (int64_t first = 0; first + span <= in + begin + end; first += stride) ++out;
  }
  return {in, kernel, stride, dilation, begin, out};
}

TensorType f32(std::initializer_list<int64_t> extents) { return {DType::F32, Shape(extents)}; }
TensorType f64(std::initializer_list<int64_t> extents) { return {DType::F64, Shape(extents)}; }
TensorType s32(std::initializer_list<int64_t> extents) { return {DType::S32, Shape(extents)}; }

}  // namespace qtape::test
