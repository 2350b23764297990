// Report of `qtape verify`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "qtape/core/fields.h"
#include "qtape/deploy/verify.h"
#include "qtape/integer/core/certificate.h"
#include "qtape/tools/qtape/verify_samples.h"

namespace qtape::tool {

struct LevelDifferences {
  Level level = Level::Float;
  int64_t differ = 0;

  static constexpr auto fields() {
    using D = LevelDifferences;
    return std::tuple{
        field("level", &D::level, "of arithmetic"),
        field("differ", &D::differ, "integers that differ from L2; for L0, from L1")};
  }
};

struct LayerReport {
  std::string label;
  bool accumulators = false;
  int64_t compared = 0;
  std::vector<LevelDifferences> levels = {};

  std::optional<int64_t> at(Level level) const {
    for (const LevelDifferences& each : levels) {
      if (each.level == level) return each.differ;
    }
    return std::nullopt;
  }

  static constexpr auto fields() {
    using L = LayerReport;
    return std::tuple{field("label", &L::label, "of the node"),
                      field("accumulators", &L::accumulators, "true for accumulators"),
                      field("compared", &L::compared, "integers"),
                      field("levels", &L::levels, "levels that have values of the node")};
  }
};

struct LayerCertificate : Certificate {
  std::string label;

  static constexpr auto fields() {
    return std::tuple_cat(
        std::tuple{field("label", &LayerCertificate::label, "of the node, or its description")},
        Certificate::fields());
  }
};

struct LevelScore {
  Level level = Level::Float;
  double score = 0;
  std::optional<double> accuracy = {};

  static constexpr auto fields() {
    using A = LevelScore;
    return std::tuple{field("level", &A::level, "of arithmetic"),
                      field("score", &A::score, "of the first output by the metric"),
                      field("accuracy", &A::accuracy, "percent; null for other metrics")};
  }
};

struct LevelReport {
  Level level = Level::Float;
  std::string report;

  static constexpr auto fields() {
    using L = LevelReport;
    return std::tuple{field("level", &L::level, "of arithmetic"),
                      field("report", &L::report, "how or where the level computes, in lines")};
  }
};

struct RequantizationReport {
  Requantization requantization = Requantization::FloatMultiply;
  std::optional<std::string> program = {};
  std::vector<LayerCertificate> certificates = {};
  std::string backend = {};
  std::vector<LevelReport> targets = {};
  std::vector<LayerReport> layers = {};
  int64_t output_float_exact = 0;
  int64_t output_mismatches = 0;
  std::optional<MetricKind> metric = {};
  std::vector<LevelScore> scores = {};
  std::optional<int64_t> samples = {};
  int64_t random_inputs = 0;
  int64_t mismatches = 0;
  std::optional<int64_t> seen_differently = {};
  std::optional<Mismatch> first_mismatch = {};

  static constexpr auto fields() {
    using R = RequantizationReport;
    return std::tuple{
        field("requantization", &R::requantization, "conversion of accumulators to codes"),
        field("program", &R::program, "file that the model converts to, otherwise null"),
        field("certificates", &R::certificates, "of products with weights"),
        field("backend", &R::backend, "multiplication in L3, one line per product"),
        field("reports", &R::targets, "of the levels of targets that have one"),
        field("layers", &R::layers, "integers that differ"),
        field("output_float_exact", &R::output_float_exact, "f32 outputs that differ in L0"),
        field("output_mismatches", &R::output_mismatches, "other f32 outputs that differ"),
        field("metric", &R::metric, "of the scores; null without labels or targets"),
        field("accuracies", &R::scores, "scores of each level; empty without a metric"),
        field("samples", &R::samples, "of the data; null without data"),
        field("random_inputs", &R::random_inputs, "in addition to the data"),
        field("mismatches", &R::mismatches, "between all levels except L0"),
        field("seen_differently", &R::seen_differently, "samples classified differently"),
        field("first_mismatch", &R::first_mismatch, "integers; null if none differ")};
  }
};

struct VerifyReport {
  int64_t threads = 0;
  int64_t mismatches = 0;
  std::vector<RequantizationReport> requantizations;

  static constexpr auto fields() {
    using R = VerifyReport;
    return std::tuple{field("threads", &R::threads, "that were used"),
                      field("mismatches", &R::mismatches, "of all requantizations"),
                      field("requantizations", &R::requantizations, "each by itself")};
  }
};

/// Adds the comparisons of layers and outputs.
void add_layers(RequantizationReport& report, const Verifier& verifier);
/// Adds the certificates of products and the reports of levels.
void add_certificates(RequantizationReport& report, const Verifier& verifier);
void add_scores(RequantizationReport& report, const LevelScores& found);

void print_certificates(const RequantizationReport& report);
/// Prints layers, scores and mismatches of the levels that ran.
void print_samples(const RequantizationReport& report, const std::vector<Level>& levels);

}  // namespace qtape::tool
