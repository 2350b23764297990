#include "qtape/tools/qtape/train_report.h"

#include <algorithm>
#include <cmath>

#include "qtape/core/printable.h"
#include "qtape/data/non_finite.h"
#include "qtape/programs/console/standard_output.h"
#include "qtape/tools/qtape/json_report.h"

namespace qtape::tool {
namespace {

/// True if `after` is worse than `before` by more than noise: by 1 of 100 or of an AUC, by a
/// tenth of an error.
bool is_worse(MetricKind kind, double after, double before) {
  switch (kind) {
    case MetricKind::Accuracy:
      return after < before - 1;
    case MetricKind::AreaUnderCurve:
      return after < before - 0.01;
    case MetricKind::MeanSquaredError:
    case MetricKind::MeanAbsoluteError:
      break;
  }
  return after > before * 1.1;
}

}  // namespace

void require_finite_losses(const FitResult& result, const data::Dataset& dataset) {
  check(result.skipped_batches < result.step,
        "nothing was trained: the loss was NaN or infinite in all steps ({}){}",
        result.skipped_batches, data::first_non_finite(dataset));
  if (result.epochs.empty()) return;
  const EpochResult& last = result.epochs.back();
  check(!std::isnan(last.loss),
        "the trained model is unusable: the loss was NaN or infinite in all steps of epoch {}; "
        "try a tenth of the learning rate (--lr){}",
        last.epoch, data::first_non_finite(dataset));
}

void say_if_worse(const TrainReport& report) {
  if (!report.score || !report.score_calibrated) return;
  if (!is_worse(*report.metric, *report.score, *report.score_calibrated)) return;
  console::print(
      "warning: calibration alone was better, {}: try a tenth of the learning rate (--lr) or "
      "more epochs\n",
      metric_of(*report.metric).text(*report.score_calibrated));
}

void say_small_rates(const std::map<std::string, double>& rates) {
  if (rates.empty()) return;
  const auto least =
      std::ranges::min_element(rates, {}, [](const auto& each) { return each.second; });
  console::print(
      "{} with small values: lower learning rates, the lowest that of '{}', times {:.2g}\n",
      counted(std::ssize(rates), "parameter"), printable(least->first), least->second);
}

}  // namespace qtape::tool
