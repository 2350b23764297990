#include "qtape/optim/optimizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "qtape/core/float_environment.h"
#include "qtape/core/pattern.h"
#include "qtape/core/settings.h"
#include "qtape/kernels/simd/threads.h"
#include "qtape/optim/arithmetic.h"
#include "qtape/optim/update_loops.h"

namespace qtape {

using namespace kernels;
namespace {

/// Minimum number of elements per thread: an update costs a few times as much as a pointwise
/// op.
constexpr int64_t grain = 8192;
constexpr int64_t block_size = 1024;
/// Number of f32 elements per cache line, so that ranges start aligned.
constexpr int64_t line = 16;
constexpr int64_t max_steps = int64_t{1} << 62;

void require_decay(std::string_view rule, std::string_view name, double value) {
  require<ArgumentError>(value >= 0 && value < 1, "{}: {} must be in [0, 1), got {}", rule,
                         name, value);
}

/// epsilon must stay above 0 as an f32, so that a gradient of 0 changes nothing.
void require_epsilon(std::string_view rule, double value) {
  require<ArgumentError>(value >= 1e-30 && value <= 1,
                         "{}: epsilon must be in [1e-30, 1], got {}", rule, value);
}

void validate(const Sgd& rule) {
  require_decay(rule.name, "momentum", rule.momentum);
  settings::require_non_negative(rule.name, "weight_decay", rule.weight_decay);
  require<ArgumentError>(!rule.nesterov || rule.momentum > 0,
                         "{}: nesterov needs momentum in (0, 1), got {}", rule.name,
                         rule.momentum);
}

template <class AnyAdam>
void validate(const AnyAdam& rule) {
  require_decay(rule.name, "beta1", rule.beta1);
  require_decay(rule.name, "beta2", rule.beta2);
  require_epsilon(rule.name, rule.epsilon);
  settings::require_non_negative(rule.name, "weight_decay", rule.weight_decay);
}

void validate(const RmsProp& rule) {
  require_decay(rule.name, "alpha", rule.alpha);
  require_epsilon(rule.name, rule.epsilon);
  require_decay(rule.name, "momentum", rule.momentum);
  settings::require_non_negative(rule.name, "weight_decay", rule.weight_decay);
}

void validate(const ParameterGroup& group) {
  const std::string owner = fmt::format("ParameterGroup '{}'", group.pattern);
  settings::require_non_negative(owner, "learning_rate_scale", group.learning_rate_scale);
  if (group.weight_decay) {
    settings::require_non_negative(owner, "weight_decay", *group.weight_decay);
  }
}

/// Throws ArgumentError if no trainable entry belongs to group `k`: it matches none, or only
/// those of preceding groups.
void require_used(std::span<const ParameterGroup> groups, size_t k,
                  const Parameters& parameters) {
  std::vector<std::string> names;
  for (const ParameterEntry& entry : parameters.entries()) {
    if (entry.trainable()) names.push_back(entry.name);
  }
  const PatternUse use = pattern_use(groups, k, names);
  require<ArgumentError>(
      use == PatternUse::Used, "ParameterGroup: pattern '{}' matches {}", groups[k].pattern,
      use == PatternUse::Preceded ? "only parameters of preceding groups" : "no parameter");
}

bool has_first(const Rule& rule) {
  return std::visit(
      [](const auto& each) {
        if constexpr (requires { each.momentum; }) return each.momentum > 0;
        return true;
      },
      rule);
}

bool has_second(const Rule& rule) { return !std::holds_alternative<Sgd>(rule); }

template <class T>
detail::UpdateLoop loop_for(const Rule& rule) {
  if (const auto* sgd = std::get_if<Sgd>(&rule)) {
    if (sgd->momentum == 0) return detail::sgd_loop<T>();
    return sgd->nesterov ? detail::momentum_loop<T, true>() : detail::momentum_loop<T, false>();
  }
  if (const auto* rms_prop = std::get_if<RmsProp>(&rule)) {
    return rms_prop->momentum > 0 ? detail::rms_prop_loop<T, true>()
                                  : detail::rms_prop_loop<T, false>();
  }
  return detail::adam_loop<T>();
}

detail::UpdateFactors factors_for(const Sgd& rule, double rate, double decay, int64_t) {
  return {.rate = rate, .decay = decay, .momentum = rule.momentum};
}

detail::UpdateFactors factors_for(const RmsProp& rule, double rate, double decay, int64_t) {
  return {.rate = rate,
          .decay = decay,
          .momentum = rule.momentum,
          .second_keep = rule.alpha,
          .second_weight = 1.0 - rule.alpha,
          .epsilon = rule.epsilon};
}

/// For Adam and AdamW. Bias corrections are applied to scalars instead of the moments, so that
/// an element costs one root and one division.
template <class AnyAdam>
detail::UpdateFactors factors_for(const AnyAdam& rule, double rate, double decay,
                                  int64_t step) {
  constexpr bool decoupled = std::is_same_v<AnyAdam, AdamW>;
  return {.rate = rate / (1.0 - math::power(rule.beta1, step)),
          .keep = decoupled ? 1.0 - rate * decay : 1.0,
          .decay = decoupled ? 0.0 : decay,
          .momentum = rule.beta1,
          .first_weight = 1.0 - rule.beta1,
          .second_keep = rule.beta2,
          .second_weight = 1.0 - rule.beta2,
          .root_scale = 1.0 / std::sqrt(1.0 - math::power(rule.beta2, step)),
          .epsilon = rule.epsilon};
}

/// Formats groups, except the last, as `fc1.*: learning_rate_scale 0.5, weight_decay 0; *.bias:
/// frozen`.
std::string describe(std::span<const ParameterGroup> groups) {
  std::string text;
  for (const ParameterGroup& group : groups.first(groups.size() - 1)) {
    if (!text.empty()) text += "; ";
    text += fmt::format("{}: learning_rate_scale {}", group.pattern, group.learning_rate_scale);
    if (group.weight_decay) text += fmt::format(", weight_decay {}", *group.weight_decay);
    if (group.frozen) text += ", frozen";
  }
  return text;
}

void check_settings(const Section& expected, const Section& section) {
  for (const auto& [key, value] : expected.settings) {
    const auto found = section.settings.find(key);
    const bool same =
        found != section.settings.end() && settings::same_setting(value, found->second);
    require<FormatError>(same || key == "steps", "Optimizer: setting '{}': expected {}, got {}",
                         key, settings::shown(value), settings::shown(section.settings, key));
  }
  settings::refuse_unknown("Optimizer", section, expected);
}

void check_tensors(const Section& expected, const Section& section) {
  for (const auto& [key, tensor] : expected.tensors) {
    const auto found = section.tensors.find(key);
    const bool missing = found == section.tensors.end();
    require<FormatError>(!missing && found->second.type == tensor.type,
                         "Optimizer: tensor '{}': expected {}, got {}", printable(key),
                         to_string(tensor.type),
                         missing ? "nothing" : to_string(found->second.type));
    require<FormatError>(found->second.data.size() == tensor.data.size(),
                         "Optimizer: tensor '{}': expected {} bytes, got {}", printable(key),
                         tensor.data.size(), found->second.data.size());
  }
  for (const auto& [key, tensor] : section.tensors) {
    require<FormatError>(expected.tensors.contains(key),
                         "Optimizer: tensor '{}': expected nothing, got {}", printable(key),
                         to_string(tensor.type));
  }
}

}  // namespace

const ParameterGroup* group_of(std::span<const ParameterGroup> groups, std::string_view name) {
  const auto group = std::ranges::find_if(
      groups, [&](const ParameterGroup& each) { return matches(each.pattern, name); });
  return group == groups.end() ? nullptr : &*group;
}

Optimizer::Optimizer(Parameters& parameters, Rule rule, std::vector<ParameterGroup> groups,
                     int threads)
    : parameters_(parameters), rule_(rule), groups_(std::move(groups)), threads_(threads) {
  std::visit([](const auto& each) { validate(each); }, rule_);
  settings::require_at_least("Optimizer", "threads", 1, threads);
  for (size_t k = 0; k < groups_.size(); ++k) {
    validate(groups_[k]);
    require_used(groups_, k, parameters);
  }
  groups_.push_back({.pattern = "*"});
  factors_.resize(groups_.size());
  add_parts(parameters);
  place_moments();
}

void Optimizer::add_parts(const Parameters& parameters) {
  for (const ParameterEntry& entry : parameters.entries()) {
    if (!entry.trainable()) continue;
    const ParameterGroup* group = group_of(groups_, entry.name);
    if (group->frozen || entry.elements() == 0) continue;
    Part part{.name = entry.name,
              .type = entry.type,
              .group = static_cast<size_t>(group - groups_.data()),
              .start = elements_,
              .span = {.value = entry.value, .gradient = entry.gradient}};
    part.loop =
        entry.type.dtype == DType::F64 ? loop_for<double>(rule_) : loop_for<float>(rule_);
    elements_ += (entry.elements() + line - 1) / line * line;
    parts_.push_back(std::move(part));
  }
}

void Optimizer::place_moments() {
  const int64_t count = int64_t{has_first(rule_)} + int64_t{has_second(rule_)};
  int64_t bytes = 0;
  for (const Part& part : parts_) bytes += count * aligned_size(part.type.bytes());
  moments_ = AlignedBuffer(bytes);
  std::byte* next = moments_.data();
  for (Part& part : parts_) {
    for (std::byte** moment : {&part.span.first, &part.span.second}) {
      const bool kept = moment == &part.span.first ? has_first(rule_) : has_second(rule_);
      if (!kept) continue;
      *moment = next;
      next += aligned_size(part.type.bytes());
    }
  }
}

void Optimizer::step(double learning_rate) {
  settings::require_non_negative("Optimizer", "learning rate", learning_rate);
  (void)parameters_.get("optimizer");
  const FloatEnvironment floats;
  for (size_t i = 0; i < groups_.size(); ++i) {
    const double rate = learning_rate * groups_[i].learning_rate_scale;
    factors_[i] = std::visit(
        [&](const auto& rule) {
          const double decay = groups_[i].weight_decay.value_or(rule.weight_decay);
          return factors_for(rule, rate, decay, steps_ + 1);
        },
        rule_);
  }
  parallel_for(threads_, elements_, block_size, grain,
               [&](int64_t begin, int64_t end) { update(begin, end); });
  ++steps_;
}

void Optimizer::update(int64_t begin, int64_t end) const {
  const auto after = std::ranges::upper_bound(parts_, begin, {}, &Part::start);
  for (auto part = after - 1; part != parts_.end() && part->start < end; ++part) {
    const int64_t first = std::max<int64_t>(begin - part->start, 0);
    const int64_t last = std::min(end - part->start, part->type.elements());
    if (first >= last) continue;
    const int64_t offset = first * size_of(part->type.dtype);
    const auto at = [&](auto* data) { return data == nullptr ? data : data + offset; };
    const detail::UpdateSpan& whole = part->span;
    const detail::UpdateSpan span{at(whole.value), at(whole.gradient), at(whole.first),
                                  at(whole.second), last - first};
    part->loop(&factors_[part->group], &span);
  }
}

template <class Visit>
void Optimizer::visit_moments(const Visit& visit) const {
  for (const Part& part : parts_) {
    if (part.span.first != nullptr) visit("first/" + part.name, part.type, part.span.first);
    if (part.span.second != nullptr) visit("second/" + part.name, part.type, part.span.second);
  }
}

Section Optimizer::save() const {
  (void)parameters_.get("optimizer");
  Section section;
  std::visit(
      [&](const auto& rule) {
        section.kind = rule.name;
        settings::put_fields(rule, "", section);
      },
      rule_);
  section.settings["groups"] = describe(groups_);
  section.settings["steps"] = steps_;
  visit_moments([&](const std::string& name, const TensorType& type, const std::byte* data) {
    section.tensors[name] = {type, {data, data + type.bytes()}};
  });
  return section;
}

void Optimizer::load(const Section& section) {
  const Section expected = save();
  require<FormatError>(section.kind == expected.kind,
                       "Optimizer: kind: expected \"{}\", got \"{}\"", expected.kind,
                       printable(section.kind));
  check_settings(expected, section);
  check_tensors(expected, section);
  const auto steps = settings::take<int64_t>("Optimizer", section, "steps");
  require<FormatError>(steps >= 0 && steps <= max_steps,
                       "Optimizer: setting 'steps': expected 0 to 2^62, got {}", steps);
  visit_moments([&](const std::string& name, const TensorType& type, std::byte* data) {
    std::memcpy(data, section.tensors.at(name).data.data(), static_cast<size_t>(type.bytes()));
  });
  steps_ = steps;
}

}  // namespace qtape
