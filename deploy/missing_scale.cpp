#include "qtape/deploy/missing_scale.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "qtape/engine/quantizers.h"

namespace qtape {
namespace {

/// What a state holds of channel `c`: one number, or both ends of a range; empty where they are
/// 0.
std::string state_text(const ParameterEntry& state, int64_t channels, int64_t c) {
  return dispatch_compute(state.type.dtype, [&]<class T>() -> std::string {
    std::vector<T> numbers;
    const auto values = state.values<T>();
    for (auto i = static_cast<size_t>(c); i < values.size(); i += static_cast<size_t>(channels))
      numbers.push_back(values[i]);
    const bool zero = std::ranges::all_of(numbers, [](T v) { return v == 0; });
    return zero ? "" : fmt::format("{}", fmt::join(numbers, " to "));
  });
}

}  // namespace

std::string missing_scale(const Graph& graph, const Parameters& parameters, NodeId id,
                          int64_t c) {
  const Node& node = graph[id];
  const auto slots = std::visit([](const auto& op) { return op.slots(); }, node.op);
  const int64_t channels = channel_map(graph, id).channels;
  std::string text;
  for (size_t k = 1; k < node.operands.size(); ++k) {
    const ParameterEntry& state = parameters.at(graph[node.operands[k]].label);
    const std::string held = state_text(state, channels, c);
    // The first state is the scale, or what it is computed from.
    if (k == 1 && held.empty()) return std::string(never_observed);
    text +=
        fmt::format("{}{} {}", k == 1 ? "" : " and ", slots[k].name, held.empty() ? "0" : held);
  }
  return fmt::format("no scale follows from its {}", text);
}

}  // namespace qtape
