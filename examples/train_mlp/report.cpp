#include "qtape/examples/train_mlp/report.h"

#include <nlohmann/json.hpp>

#include "qtape/core/isa.h"

namespace qtape::examples {
namespace {

using Json = nlohmann::ordered_json;

Json or_null(const std::optional<int64_t>& value) { return value ? Json(*value) : Json(); }

}  // namespace

std::string report_json(const Settings& settings, int threads, const RunResult& result) {
  Json epochs = Json::array();
  for (const EpochResult& each : result.epochs) {
    epochs.push_back(
        {{"epoch", each.epoch}, {"loss", each.loss}, {"test_accuracy", each.test_accuracy}});
  }
  const Json report = {
      {"settings",
       {{"data", settings.data.empty() ? "generated digits" : settings.data},
        {"samples", settings.samples},
        {"model", std::string(to_string_view(settings.model))},
        {"layers", settings.layers},
        {"weight_bits", settings.weight_bits},
        {"activation_bits", settings.activation_bits},
        {"ste", std::string(to_string_view(settings.ste))},
        {"scale_mode", std::string(to_string_view(settings.scale_mode))},
        {"exact", settings.exact ? std::string(to_string_view(*settings.exact)) : ""},
        {"quantize_after", settings.schedule.delay},
        {"freeze_after", or_null(settings.schedule.freeze)},
        {"warm_up", settings.schedule.warm_up},
        {"epochs", settings.epochs},
        {"batch", settings.batch},
        {"lr", settings.learning_rate},
        {"seed", settings.seed},
        {"threads", threads},
        {"isa", std::string(to_string_view(isa()))}}},
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
