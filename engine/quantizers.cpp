#include "qtape/engine/quantizers.h"

#include <cmath>

namespace qtape {
namespace {

const ParameterEntry& state_at(const Parameters& parameters, std::string_view name) {
  const ParameterEntry& entry = parameters.at(name);
  check(!entry.trainable(), "'{}' is a parameter, not a quantizer's state", name);
  return entry;
}

}  // namespace

void set_qparams(Parameters& parameters, std::string_view name, double scale) {
  const ParameterEntry& entry = state_at(parameters, name);
  const std::vector<double> scales(static_cast<size_t>(entry.elements()), scale);
  set_qparams(parameters, name, scales);
}

void set_qparams(Parameters& parameters, std::string_view name,
                 std::span<const double> scales) {
  const ParameterEntry& entry = state_at(parameters, name);
  check(static_cast<int64_t>(scales.size()) == entry.elements(), "'{}' has {} scales, got {}",
        name, entry.elements(), scales.size());
  dispatch_compute(entry.type.dtype, [&]<class T>() {
    for (size_t i = 0; i < scales.size(); ++i) {
      const T scale = static_cast<T>(scales[i]);
      check(scale > T(0) && std::isnormal(scale),
            "'{}': scale {} must be positive and a normal {}, got {}", name, i,
            to_string_view(entry.type.dtype), scales[i]);
    }
    for (size_t i = 0; i < scales.size(); ++i) {
      entry.values<T>()[i] = static_cast<T>(scales[i]);
    }
  });
}

void set_qparams(Parameters& parameters, std::string_view name, const Tensor& scales) {
  const ParameterEntry& entry = state_at(parameters, name);
  check(scales.type == entry.type, "'{}' is {}, got {}", name, to_string(entry.type),
        to_string(scales.type));
  const Tensor before = parameters.get(name);
  parameters.set(name, scales);
  try {
    set_qparams(parameters, name, qparams(parameters, name));
  } catch (const GraphError&) {
    parameters.set(name, before);
    throw;
  }
}

std::vector<double> qparams(const Parameters& parameters, std::string_view name) {
  const ParameterEntry& entry = state_at(parameters, name);
  return dispatch_compute(entry.type.dtype, [&]<class T>() {
    const auto values = entry.values<T>();
    return std::vector<double>(values.begin(), values.end());
  });
}

std::vector<NodeId> quantizers(const Graph& graph) {
  std::vector<NodeId> found;
  for (int32_t i = 0; i < graph.size(); ++i) {
    if (std::holds_alternative<FakeQuantize>(graph[NodeId{i}].op)) found.push_back(NodeId{i});
  }
  return found;
}

}  // namespace qtape
