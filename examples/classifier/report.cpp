#include "qtape/examples/classifier/report.h"

namespace qtape::examples {

std::string report_json(Json settings, const RunResult& result) {
  Json epochs = Json::array();
  for (const EpochResult& each : result.fit.epochs) {
    epochs.push_back({{"epoch", each.epoch},
                      {"loss", each.loss},
                      {"test_accuracy", each.score.value_or(0)}});
  }
  const Json report = {{"settings", std::move(settings)},
                       {"epochs", std::move(epochs)},
                       {"ranks", result.fit.ranks},
                       {"shards", result.fit.shards},
                       {"step_us", result.fit.step_us ? Json(*result.fit.step_us) : Json()},
                       {"test_accuracy", result.test.accuracy.value_or(0)},
                       {"outputs_sha256", result.test.outputs_sha256},
                       {"parameters_sha256", result.parameters_sha256},
                       {"skipped_batches", result.fit.skipped_batches},
                       {"non_finite_elements", result.fit.non_finite_elements}};
  return report.dump(2) + "\n";
}

}  // namespace qtape::examples
