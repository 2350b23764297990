#include "qtape/examples/train_mlp/report.h"

#include "qtape/examples/shared/settings_json.h"

namespace qtape::examples {

std::string report_json(const Settings& settings, int threads, const RunResult& result) {
  Json named = settings_json(settings, threads);
  named["data"] = data_name(settings);
  Json epochs = Json::array();
  for (const EpochResult& each : result.epochs) {
    epochs.push_back(
        {{"epoch", each.epoch}, {"loss", each.loss}, {"test_accuracy", each.test_accuracy}});
  }
  const Json report = {{"settings", std::move(named)},
                       {"epochs", std::move(epochs)},
                       {"step_us", result.step_us},
                       {"test_accuracy", result.test.accuracy},
                       {"outputs_sha256", result.test.outputs_sha256},
                       {"parameters_sha256", result.parameters_sha256},
                       {"skipped_batches", result.skipped_batches},
                       {"non_finite_elements", result.non_finite_elements}};
  return report.dump(2) + "\n";
}

}  // namespace qtape::examples
