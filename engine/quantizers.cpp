#include "qtape/engine/quantizers.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "qtape/core/float_environment.h"
#include "qtape/core/printable.h"
#include "qtape/engine/contract.h"

namespace qtape {
namespace {

/// Calls `body(op)` with the quantizer at `id`. Throws GraphError for other nodes.
template <class Body>
auto visit_quantizer_at(const Graph& graph, NodeId id, const Body& body) {
  if (!is_quantizer(graph[id].op)) {
    fail<GraphError>("{}: is not a quantizer", graph.describe(id));
  }
  return visit_quantizer(graph[id].op, body);
}

const TensorType& type_of_x(const Graph& graph, NodeId id) {
  return graph[graph[id].operands[0]].type;
}

/// Memory of the operands after x, in slot order.
std::vector<std::byte*> values_of(const Graph& graph, const Parameters& parameters, NodeId id) {
  std::vector<std::byte*> values;
  const std::vector<NodeId>& operands = graph[id].operands;
  for (size_t i = 1; i < operands.size(); ++i) {
    const Node& leaf = graph[operands[i]];
    if (!is_persistent(leaf.op)) {
      fail<GraphError>("{}: operand {} is neither a State nor a Parameter", graph.describe(id),
                       i);
    }
    const ParameterEntry& entry = parameters.at(leaf.label);
    if (entry.type != leaf.type) {
      fail<GraphError>("{}: '{}' is {}, the graph needs {}", graph.describe(id),
                       printable(leaf.label), to_string(entry.type), to_string(leaf.type));
    }
    values.push_back(entry.value);
  }
  return values;
}

void check_count(const Graph& graph, NodeId id, size_t given) {
  const int64_t channels = channel_map(graph, id).channels;
  if (graph[id].operands.size() < 2) {
    fail<GraphError>("{}: has no states to set", graph.describe(id));
  }
  if (static_cast<int64_t>(given) != channels) {
    fail<GraphError>("{}: has {} channels, got {}", graph.describe(id), channels, given);
  }
}

double smallest_normal(DType dtype) {
  return dtype == DType::F64 ? std::numeric_limits<double>::min()
                             : double{std::numeric_limits<float>::min()};
}

/// True if `v` is finite in `dtype`.
bool fits(double v, DType dtype) {
  const double largest = dtype == DType::F64 ? std::numeric_limits<double>::max()
                                             : double{std::numeric_limits<float>::max()};
  return std::fabs(v) <= largest;
}

void check_qparams(const Graph& graph, NodeId id, std::span<const QParams<double>> qparams) {
  const DType dtype = scale_dtype(type_of_x(graph, id).dtype);
  const Grid grid = grid_of(graph, id);
  const bool affine = grid.scheme == Scheme::Affine;
  const int32_t low = affine ? grid.limits.q_min : 0;
  const int32_t high = affine ? grid.limits.q_max : 0;
  for (size_t c = 0; c < qparams.size(); ++c) {
    const auto& [scale, zero_point] = qparams[c];
    const double span = grid.limits.q_max - grid.limits.q_min;
    if (!(scale >= smallest_normal(dtype)) || !fits(scale, dtype)) {
      fail<GraphError>("{}: scale {} must be positive and a normal {}, got {}",
                       graph.describe(id), c, to_string_view(dtype), scale);
    }
    if (grid.power_of_two && !is_power_of_two(scale)) {
      fail<GraphError>("{}: scale {} must be a power of two, got {}", graph.describe(id), c,
                       scale);
    }
    if (!fits(scale * span, dtype)) {
      fail<GraphError>("{}: scale {} is too large: {} steps of {} do not fit into {}",
                       graph.describe(id), c, span, scale, to_string_view(dtype));
    }
    if (!is_code(zero_point, {low, high})) {
      fail<GraphError>("{}: zero point {} must be an integer in {}..{}, got {}",
                       graph.describe(id), c, low, high, zero_point);
    }
  }
}

}  // namespace

std::vector<NodeId> quantizers(const Graph& graph) {
  std::vector<NodeId> found;
  for (const NodeId id : ids(graph)) {
    if (is_quantizer(graph[id].op)) found.push_back(id);
  }
  return found;
}

std::vector<NodeId> trained_scales(const Graph& graph, NodeId id) {
  std::vector<NodeId> found;
  for (const NodeId operand : std::span(graph[id].operands).subspan(1)) {
    if (std::holds_alternative<Parameter>(graph[operand].op)) found.push_back(operand);
  }
  return found;
}

Grid grid_of(const Graph& graph, NodeId id) {
  return visit_quantizer_at(graph, id, [](const auto& op) { return grid_of(op); });
}

ChannelMap channel_map(const Graph& graph, NodeId id) {
  return visit_quantizer_at(graph, id, [&](const auto& op) {
    return ChannelMap(type_of_x(graph, id).shape, granularity_of(op));
  });
}

FakeQuantize quantizer_for(int bits, CodeRange range, std::span<const QParams<double>> qparams,
                           int axis) {
  require<ArgumentError>(!qparams.empty(), "expected a scale, got none");
  const bool affine =
      std::ranges::any_of(qparams, [](const auto& each) { return each.zero_point != 0; });
  FakeQuantize op{.bits = bits,
                  .range = range,
                  .scheme = affine ? Scheme::Affine : Scheme::Symmetric,
                  .ste = Ste::ClippedIdentity,
                  .scale_mode = Fixed{}};
  if (qparams.size() > 1) op.axis = axis;
  for (const auto& each : qparams) op.floor = std::min(op.floor, each.scale);
  return op;
}

NodeId add_quantizer(Graph& graph, NodeId x, const Op& quantizer, const std::string& label) {
  check(is_quantizer(quantizer), "'{}': expected a quantizer, got {}", label,
        name_of(quantizer));
  const TensorType type = graph[x].type;
  const Granularity granularity = granularity_of(quantizer);
  const std::vector<QuantizerOperand> operands = operands_of(quantizer);
  if (graph.find(label + ".quantized")) {
    fail<GraphError>("label '{}.quantized' is already used", printable(label));
  }
  std::vector<TensorType> types = {type};
  for (const QuantizerOperand& operand : operands) {
    types.push_back(operand_type(operand, granularity, type));
  }
  // Checked first, so that the error names the quantizer rather than one of its states.
  (void)contract(quantizer, types);
  return graph.all_or_nothing([&] {
    std::vector<NodeId> ids = {x};
    for (size_t i = 0; i < operands.size(); ++i) {
      const auto& [dtype, shape] = types[i + 1];
      const Op leaf = operands[i].trained ? Op{Parameter{.dtype = dtype, .shape = shape}}
                                          : Op{State{.dtype = dtype, .shape = shape}};
      ids.push_back(graph.add(leaf, {}, fmt::format("{}.{}", label, operands[i].name)));
    }
    return graph.add(quantizer, ids, label + ".quantized");
  });
}

void set_qparams(const Graph& graph, Parameters& parameters, NodeId id,
                 std::span<const QParams<double>> qparams) {
  const FloatEnvironment floats;
  check_count(graph, id, qparams.size());
  check_qparams(graph, id, qparams);
  const auto values = values_of(graph, parameters, id);
  visit_quantizer_at(graph, id,
                     [&](const auto& op) { op.store(type_of_x(graph, id), qparams, values); });
}

void set_qparams(const Graph& graph, Parameters& parameters, NodeId id, double scale,
                 double zero_point) {
  const auto channels = static_cast<size_t>(channel_map(graph, id).channels);
  const std::vector<QParams<double>> all(channels, {scale, zero_point});
  set_qparams(graph, parameters, id, all);
}

void set_qparams(const Graph& graph, Parameters& parameters, NodeId id, const Tensor& scales) {
  const TensorType& x = type_of_x(graph, id);
  const Shape shape = visit_quantizer_at(
      graph, id, [&](const auto& op) { return granularity_of(op).scales_shape(x.shape); });
  const TensorType expected{scale_dtype(x.dtype), shape};
  if (scales.type != expected) {
    fail<GraphError>("{}: scales must be {}, got {}", graph.describe(id), expected,
                     scales.type);
  }
  if (static_cast<int64_t>(scales.data.size()) != expected.bytes()) {
    fail<GraphError>("{}: scales hold {} bytes, {} needs {}", graph.describe(id),
                     scales.data.size(), expected, expected.bytes());
  }
  if (grid_of(graph, id).scheme == Scheme::Affine) {
    fail<GraphError>("{}: is affine, and a tensor of scales has no zero points",
                     graph.describe(id));
  }
  std::vector<QParams<double>> all;
  dispatch_compute(expected.dtype, [&]<class T>() {
    const T* first = reinterpret_cast<const T*>(scales.data.data());
    for (int64_t c = 0; c < shape.elements(); ++c) all.push_back({double{first[c]}, 0.0});
  });
  set_qparams(graph, parameters, id, all);
}

std::vector<QParams<double>> qparams(const Graph& graph, const Parameters& parameters,
                                     NodeId id) {
  const FloatEnvironment floats;
  if (!is_quantizer(graph[id].op)) {
    fail<GraphError>("{}: is not a quantizer", graph.describe(id));
  }
  const auto values = values_of(graph, parameters, id);
  if (values.empty()) return {};
  return visit_quantizer_at(
      graph, id, [&](const auto& op) { return op.load(type_of_x(graph, id), values); });
}

void set_ranges(const Graph& graph, Parameters& parameters, NodeId id,
                std::span<const ValueRange<double>> ranges) {
  const FloatEnvironment floats;
  check_count(graph, id, ranges.size());
  const DType dtype = scale_dtype(type_of_x(graph, id).dtype);
  for (size_t c = 0; c < ranges.size(); ++c) {
    if (!fits(ranges[c].min, dtype) || !fits(ranges[c].max, dtype) || ranges[c].empty()) {
      fail<GraphError>("{}: range {} must be finite in {} and not empty, got {} to {}",
                       graph.describe(id), c, to_string_view(dtype), ranges[c].min,
                       ranges[c].max);
    }
  }
  const auto values = values_of(graph, parameters, id);
  visit_quantizer_at(graph, id,
                     [&](const auto& op) { op.store(type_of_x(graph, id), ranges, values); });
}

}  // namespace qtape
