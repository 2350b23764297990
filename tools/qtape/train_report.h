// Report of `qtape train`. Included only by train.cpp.
#pragma once

#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "qtape/core/fields.h"
#include "qtape/data/dataset.h"
#include "qtape/model/fit.h"
#include "qtape/model/metric.h"
#include "qtape/tools/qtape/preparation.h"

namespace qtape::tool {

struct EpochReport {
  int64_t epoch = 0;
  double loss = 0;
  std::optional<double> score = {};
  std::optional<double> accuracy = {};

  static constexpr auto fields() {
    using E = EpochReport;
    return std::tuple{
        field("epoch", &E::epoch, "from 1"), field("loss", &E::loss, "mean of its batches"),
        field("score", &E::score, "of the test data by the metric, otherwise null"),
        field("accuracy", &E::accuracy, "the score if it is an accuracy, otherwise null")};
  }
};

struct TrainReport : TrainingPreparation {
  std::optional<MetricKind> metric = {};
  std::optional<double> score_before = {};
  std::optional<double> score_calibrated = {};
  std::optional<double> score = {};
  std::optional<double> accuracy_before = {};
  std::optional<double> accuracy_calibrated = {};
  std::vector<EpochReport> epochs = {};
  int64_t steps = 0;
  int ranks = 1;
  int64_t shards = 1;
  std::optional<double> step_us = {};
  int64_t skipped_batches = 0;
  int64_t non_finite_elements = 0;
  std::optional<int64_t> frozen_weights = {};
  std::optional<double> accuracy = {};

  static constexpr auto fields() {
    using R = TrainReport;
    const auto own = std::tuple{
        field("metric", &R::metric, "of model and test data; null if there is none"),
        field("score_before", &R::score_before, "by the metric, of the original model"),
        field("score_calibrated", &R::score_calibrated, "with its quantizers calibrated"),
        field("score", &R::score, "of the trained model"),
        field("accuracy_before", &R::accuracy_before,
              "percent, of the original model; this and the following are null for other "
              "metrics"),
        field("accuracy_calibrated", &R::accuracy_calibrated, "with its quantizers calibrated"),
        field("epochs", &R::epochs, "loss and score of each epoch"),
        field("steps", &R::steps, "of the whole run"),
        field("ranks", &R::ranks, "processes"),
        field("shards", &R::shards, "of a batch"),
        field("step_us", &R::step_us, "median; null if no step ran"),
        field("skipped_batches", &R::skipped_batches, "batches without a finite loss"),
        field("non_finite_elements", &R::non_finite_elements, "elements skipped by observers"),
        field("frozen_weights", &R::frozen_weights, "null without --freeze-above"),
        field("accuracy", &R::accuracy, "percent, of the trained model")};
    return std::tuple_cat(own, TrainingPreparation::fields());
  }
};

/// Throws GraphError for a run in which no step, or none of the last epoch, had a finite loss.
void require_finite_losses(const FitResult& result, const data::Dataset& dataset);
/// Prints a warning if the score after training is worse than that of calibration alone.
void say_if_worse(const TrainReport& report);
/// Prints the number of parameters with factors on the learning rate, and the smallest factor.
void say_small_rates(const std::map<std::string, double>& rates);

}  // namespace qtape::tool
