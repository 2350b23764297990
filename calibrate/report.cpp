#include "qtape/calibrate/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "qtape/core/float_environment.h"
#include "qtape/core/half.h"
#include "qtape/engine/constants.h"
#include "qtape/engine/quantizers.h"
#include "qtape/io/json_fields.h"
#include "qtape/kernels/quantize/quantize.h"

namespace qtape {

using namespace kernels;
namespace {

constexpr int64_t max_bins = 256;

/// Sums of one quantizer over the batches.
class Sums {
 public:
  Sums(const Graph& graph, NodeId id, bool constant)
      : id_(id),
        constant_(constant),
        grid_(grid_of(graph, id)),
        map_(channel_map(graph, id)),
        codes_(grid_.limits.q_max - grid_.limits.q_min + 1),
        per_bin_((codes_ + max_bins - 1) / max_bins),
        first_code_(static_cast<size_t>(map_.channels)),
        state_(first_code_.size(), Channel::Empty) {
    report_.id = id;
    report_.label = graph.name(id);
    report_.op = name_of(graph[id].op);
    report_.limits = grid_.limits;
    report_.channels = map_.channels;
    report_.smallest_scale = std::numeric_limits<double>::infinity();
    report_.histogram.resize(static_cast<size_t>((codes_ + per_bin_ - 1) / per_bin_));
  }

  NodeId id() const { return id_; }

  template <class S>
  void add(std::span<const S> x, const std::vector<QParams<double>>& qparams) {
    using T = typename Storage<S>::Compute;
    // Weights are the same in each batch.
    if (std::exchange(added_, true) && constant_) return;
    for (const auto& q : qparams) {
      report_.smallest_scale = std::min(report_.smallest_scale, q.scale);
      report_.largest_scale = std::max(report_.largest_scale, q.scale);
    }
    for (size_t i = 0; i < x.size(); ++i) {
      const auto c = static_cast<size_t>(map_(static_cast<int64_t>(i)));
      const QParams<T> q{static_cast<T>(qparams[c].scale),
                         static_cast<T>(qparams[c].zero_point)};
      add_element(Storage<S>::load(x[i]), q, c);
    }
  }

  QuantizerReport finish() {
    if (report_.largest_scale == 0) report_.smallest_scale = 0;
    const auto n = static_cast<double>(std::max<int64_t>(1, report_.elements));
    report_.noise = noise_ / n;
    report_.sqnr = noise_ > 0 ? 10 * std::log10(signal_ / noise_)
                              : std::numeric_limits<double>::infinity();
    report_.saturated = static_cast<double>(clamped_) / n;
    report_.dead_channels = std::ranges::count(state_, Channel::OneCode);
    return report_;
  }

 private:
  // OneElement: a code other than that of 0, which a channel of one weight always has.
  enum class Channel : uint8_t { Empty, OneElement, OneCode, Alive };

  template <class T>
  void add_element(T x, const QParams<T>& q, size_t c) {
    if (!std::isfinite(x)) {
      ++report_.non_finite;
      return;
    }
    const T nearest = nearest_code(x, q, grid_);
    const T code = code_of(x, q, grid_);
    const auto index = static_cast<int64_t>(code) - grid_.limits.q_min;
    const double error = double{value_of(code, q)} - double{x};
    signal_ += double{x} * double{x};
    noise_ += error * error;
    clamped_ += nearest == code ? 0 : 1;
    ++report_.elements;
    ++report_.histogram[static_cast<size_t>(index / per_bin_)];
    if (state_[c] == Channel::Empty) {
      first_code_[c] = index;
      state_[c] = code == q.zero_point ? Channel::OneCode : Channel::OneElement;
    } else if (first_code_[c] != index) {
      state_[c] = Channel::Alive;
    } else if (state_[c] == Channel::OneElement) {
      state_[c] = Channel::OneCode;
    }
  }

  NodeId id_;
  bool constant_;
  Grid grid_;
  ChannelMap map_;
  int64_t codes_;
  int64_t per_bin_;
  std::vector<int64_t> first_code_;
  std::vector<Channel> state_;
  bool added_ = false;
  QuantizerReport report_;
  double signal_ = 0;
  double noise_ = 0;
  int64_t clamped_ = 0;
};

Json to_json_value(const QuantizerReport& r) {
  return {{"label", r.label},
          {"op", r.op},
          {"q_min", r.limits.q_min},
          {"q_max", r.limits.q_max},
          {"channels", r.channels},
          {"smallest_scale", r.smallest_scale},
          {"largest_scale", r.largest_scale},
          {"elements", r.elements},
          {"non_finite", r.non_finite},
          {"noise", r.noise},
          {"sqnr_db", std::isfinite(r.sqnr) ? Json(r.sqnr) : Json()},
          {"saturated", r.saturated},
          {"dead_channels", r.dead_channels},
          {"histogram", write_json(r.histogram)}};
}

}  // namespace

std::vector<QuantizerReport> report_quantizers(
    Tape& tape, const BatchSource& batches,
    const std::function<void(const CalibrationProgress&)>& on_batch) {
  require<ArgumentError>(batches != nullptr, "expected batches, got an empty function");
  const FloatEnvironment floats;
  const Graph& graph = tape.graph();
  const std::vector<bool> constant = constant_nodes(graph);
  std::vector<Sums> sums;
  TapeOptions options{.outputs = graph.answers(), .threads = tape.threads()};
  for (NodeId id : quantizers(graph)) {
    sums.emplace_back(graph, id, constant[at(graph[id].operands[0])]);
    options.outputs.push_back(graph[id].operands[0]);
    options.outputs.push_back(id);
  }
  Tape values(graph, tape.parameters(), std::move(options));
  for (const Sums& each : sums)
    values.status(each.id()).enabled = tape.status(each.id()).enabled;
  int64_t index = 0;
  for (; batches(values, index); ++index) {
    values.forward(mode::eval);
    for (Sums& each : sums) {
      if (!values.status(each.id()).applied) continue;
      const NodeId x = graph[each.id()].operands[0];
      dispatch_float(graph[x].type.dtype, [&]<class S>() {
        each.add(values.value<S>(x), values.qparams(each.id()));
      });
    }
    if (on_batch) on_batch({"report", index + 1, 0, 1});
  }
  require<ArgumentError>(index > 0, "a report needs at least one batch, got none");
  std::vector<QuantizerReport> reports;
  reports.reserve(sums.size());
  for (Sums& each : sums) reports.push_back(each.finish());
  return reports;
}

std::string to_table(const std::vector<QuantizerReport>& reports) {
  std::string text = fmt::format("{:<28} {:>12} {:>8} {:>22} {:>9} {:>10} {:>6}\n", "quantizer",
                                 "codes", "channels", "scale", "SQNR dB", "saturated", "dead");
  for (const QuantizerReport& r : reports) {
    const std::string scale =
        r.smallest_scale == r.largest_scale
            ? fmt::format("{:.3g}", r.largest_scale)
            : fmt::format("{:.3g} to {:.3g}", r.smallest_scale, r.largest_scale);
    text += fmt::format(
        "{:<28} {:>12} {:>8} {:>22} {:>9.2f} {:>8.3f} % {:>6}\n", printable(r.label),
        fmt::format("{}..{}", r.limits.q_min, r.limits.q_max), r.channels,
        r.elements == 0 ? "off" : scale, r.sqnr, 100 * r.saturated, r.dead_channels);
  }
  return text;
}

std::string to_json(const std::vector<QuantizerReport>& reports) {
  Json json = Json::array();
  for (const QuantizerReport& report : reports) json.push_back(to_json_value(report));
  return json.dump(1) + "\n";
}

}  // namespace qtape
