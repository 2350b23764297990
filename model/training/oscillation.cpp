#include "qtape/model/training/oscillation.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "qtape/core/printable.h"
#include "qtape/core/settings.h"
#include "qtape/engine/quantizers.h"

namespace qtape {
namespace {

/// Calls `visit(element, qparams)` for all elements of a weight whose quantizer applied.
template <class Visit>
void for_each_element(const std::vector<QParams<double>>& qparams, const ChannelMap& map,
                      int64_t elements, const Visit& visit) {
  for (int64_t i = 0; i < elements; ++i) {
    const int64_t channel = map.channels == 1 ? 0 : map(i);
    visit(static_cast<size_t>(i), qparams[static_cast<size_t>(channel)]);
  }
}

}  // namespace

void validate(const Oscillations& oscillations) {
  settings::require_non_negative("oscillations", "damping", oscillations.damping);
  const auto within = [](std::string_view name, double value) {
    require<ArgumentError>(value > 0 && value < 1, "oscillations: {} must be in (0, 1), got {}",
                           name, value);
  };
  if (oscillations.freeze_above) within("freeze_above", *oscillations.freeze_above);
  within("momentum", oscillations.momentum);
}

OscillationControl::OscillationControl(const Graph& graph, const Oscillations& options)
    : options_(options) {
  validate(options);
  const std::vector<bool> needed = needed_for(graph, graph.losses());
  for (NodeId id : quantizers(graph)) {
    if (!needed[at(id)]) continue;
    std::optional<QuantizedWeight> found = quantized_weight(graph, id);
    if (!found) continue;
    const Node& source = graph[found->parameter];
    require<ArgumentError>(
        std::ranges::count(weights_, source.label, &Weight::label) == 0,
        "oscillations: '{}' has several quantizers, and follows the codes of one",
        printable(source.label));
    Weight weight{.quantizer = id,
                  .factor = std::move(found->factor),
                  .label = source.label,
                  .limits = grid_of(graph, id).limits,
                  .map = channel_map(graph, id),
                  .code = {},
                  .direction = {},
                  .frequency = {},
                  .average = {},
                  .frozen = {}};
    const auto elements = static_cast<size_t>(source.type.elements());
    for (auto* each : {&weight.code, &weight.direction, &weight.frequency, &weight.average,
                       &weight.frozen}) {
      each->assign(elements, 0.0f);
    }
    weights_.push_back(std::move(weight));
  }
}

void OscillationControl::remember(const Parameters& parameters) {
  for (Weight& weight : weights_) weight.factor.update(parameters);
}

void OscillationControl::damp(const Tape& tape, double progress) const {
  if (options_.damping == 0) return;
  const double strength = options_.damping * 0.5 *
                          (1 - std::cos(std::numbers::pi * std::clamp(progress, 0.0, 1.0)));
  for (const Weight& weight : weights_) {
    if (!tape.status(weight.quantizer).applied) continue;
    const ParameterEntry& entry = tape.parameters().at(weight.label);
    const auto w = entry.values<float>();
    const auto g = entry.gradients<float>();
    const auto scales = tape.qparams(weight.quantizer);
    for_each_element(scales, weight.map, entry.elements(), [&](size_t i, const auto& q) {
      const float factor = weight.factor.at(i);
      const double exact = static_cast<double>(w[i] * factor) / q.scale + q.zero_point;
      const double code = std::nearbyint(exact);
      if (code < weight.limits.q_min || code > weight.limits.q_max) return;
      g[i] += static_cast<float>(2 * strength * q.scale * (exact - code) * factor);
    });
  }
}

void OscillationControl::follow(const Tape& tape) {
  for (Weight& weight : weights_) {
    if (!tape.status(weight.quantizer).applied) continue;
    const ParameterEntry& entry = tape.parameters().at(weight.label);
    const auto w = entry.values<float>();
    const auto scales = tape.qparams(weight.quantizer);
    const auto low = static_cast<double>(weight.limits.q_min);
    const auto high = static_cast<double>(weight.limits.q_max);
    for_each_element(scales, weight.map, entry.elements(), [&](size_t i, const auto& q) {
      const float factor = weight.factor.at(i);
      if (weight.frozen[i] != 0) {
        // With a factor of 0 every weight has this code.
        if (factor != 0) {
          w[i] = static_cast<float>(static_cast<double>(weight.code[i]) * q.scale / factor);
        }
        return;
      }
      // Relative to the zero point, which may move.
      const double exact = static_cast<double>(w[i] * factor) / q.scale + q.zero_point;
      const auto code =
          static_cast<float>(std::clamp(std::nearbyint(exact), low, high) - q.zero_point);
      if (!started_) {
        weight.code[i] = weight.average[i] = code;
        return;
      }
      track(weight, i, code);
    });
  }
  started_ = true;
}

void OscillationControl::track(Weight& weight, size_t i, float code) const {
  const auto momentum = static_cast<float>(options_.momentum);
  const float change = code - weight.code[i];
  const float direction = change > 0 ? 1.0f : change < 0 ? -1.0f : 0.0f;
  const bool turned = direction != 0 && direction == -weight.direction[i];
  weight.frequency[i] += momentum * ((turned ? 1.0f : 0.0f) - weight.frequency[i]);
  weight.average[i] += momentum * (code - weight.average[i]);
  if (direction != 0) weight.direction[i] = direction;
  weight.code[i] = code;
  if (options_.freeze_above &&
      static_cast<double>(weight.frequency[i]) > *options_.freeze_above) {
    weight.frozen[i] = 1;
    weight.code[i] = std::nearbyint(weight.average[i]);
  }
}

int64_t OscillationControl::frozen() const {
  int64_t count = 0;
  for (const Weight& each : weights_) count += std::ranges::count(each.frozen, 1.0f);
  return count;
}

Section OscillationControl::save() const {
  Section section{.kind = "oscillations", .settings = {{"started", started_}}, .tensors = {}};
  for (const Weight& each : weights_) {
    const Shape shape{5, static_cast<int64_t>(each.code.size())};
    std::vector<float> all;
    for (const auto* part :
         {&each.code, &each.direction, &each.frequency, &each.average, &each.frozen}) {
      all.insert(all.end(), part->begin(), part->end());
    }
    section.tensors[each.label] = Tensor::of<float>(shape, all);
  }
  return section;
}

void OscillationControl::load(const Section& section) {
  constexpr std::string_view place = "/sections/oscillations";
  const auto fits = [&](const Weight& weight) {
    const auto found = section.tensors.find(weight.label);
    return found != section.tensors.end() &&
           found->second.type ==
               TensorType{DType::F32, {5, static_cast<int64_t>(weight.code.size())}};
  };
  require<FormatError>(
      section.tensors.size() == weights_.size() && std::ranges::all_of(weights_, fits),
      "{}: the weights are not those of the model", place);
  started_ = settings::take<bool>(place, section, "started");
  settings::refuse_unknown(place, section, {.settings = {{"started", started_}}});
  for (Weight& each : weights_) {
    const auto* from =
        reinterpret_cast<const float*>(section.tensors.at(each.label).data.data());
    for (auto* part :
         {&each.code, &each.direction, &each.frequency, &each.average, &each.frozen}) {
      std::copy_n(from, part->size(), part->begin());
      from += part->size();
    }
  }
}

}  // namespace qtape
