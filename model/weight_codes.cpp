#include "qtape/model/weight_codes.h"

#include <algorithm>
#include <cmath>

#include "qtape/engine/quantizers.h"
#include "qtape/kernels/quantize/settle_kernels.h"
#include "qtape/ops/quantizer_ops.h"

namespace qtape {
namespace {

/// True if the quantizer has one scale for each factor.
bool by_channel(const ChannelMap& map, const WeightFactor& factor, int64_t elements) {
  if (map.channels != std::ssize(factor.values)) return false;
  for (int64_t i = 0; map.channels > 1 && i < elements; ++i) {
    if (map(i) != static_cast<int64_t>(factor.channel(static_cast<size_t>(i)))) return false;
  }
  return true;
}

}  // namespace

WeightCodes::WeightCodes(const Graph& graph) {
  for (const NodeId id : quantizers(graph)) {
    std::optional<QuantizedWeight> found = quantized_weight(graph, id);
    if (!found || found->factor.values.empty()) continue;
    const int64_t elements = graph[found->parameter].type.elements();
    if (!by_channel(channel_map(graph, id), found->factor, elements)) continue;
    Weight weight{.variance = found->factor.variance,
                  .eps = found->factor.eps,
                  .before = std::move(found->factor.values),
                  .trained = {},
                  .observed = {}};
    visit_quantizer(graph[id].op, [&](const auto& op) {
      size_t next = 1;
      for (const QuantizerOperand& each : op.operands()) {
        const std::string& label = graph[graph[id].operands[next++]].label;
        if (each.name == "zero_point") continue;
        if (each.trained) weight.trained.push_back(label);
        if (!each.trained && each.written) weight.observed.push_back(label);
      }
    });
    if (weight.trained.empty() && weight.observed.empty()) continue;
    weights_.push_back(std::move(weight));
  }
}

void WeightCodes::remember(const Parameters& parameters) {
  for (Weight& each : weights_) {
    std::ranges::copy(parameters.at(each.variance).values<float>(), each.before.begin());
  }
}

void WeightCodes::keep(Parameters& parameters, bool frozen) {
  for (const Weight& each : weights_) {
    multiply(parameters, each.trained, each);
    if (!frozen) multiply(parameters, each.observed, each);
  }
}

void WeightCodes::multiply(Parameters& parameters, const std::vector<std::string>& names,
                           const Weight& weight) {
  const auto after = parameters.at(weight.variance).values<float>();
  for (const std::string& name : names) {
    // A range stores all minima, then all maxima.
    size_t i = 0;
    for (float& value : parameters.at(name).values<float>()) {
      const size_t c = i++ % after.size();
      const double ratio =
          std::sqrt((double{weight.before[c]} + weight.eps) / (double{after[c]} + weight.eps));
      const bool marked = std::fabs(value) <= kernels::zeros_mark<float>;
      if (std::isnormal(ratio) && !marked) value = static_cast<float>(value * ratio);
    }
  }
}

}  // namespace qtape
