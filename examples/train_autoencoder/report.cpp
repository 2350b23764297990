#include "qtape/examples/train_autoencoder/report.h"

#include <fmt/format.h>

#include "qtape/programs/settings_json.h"

namespace qtape::examples::autoencoder {
namespace {

std::string row(std::string_view name, const TrainedModel& model, const Detection& test) {
  std::string text = fmt::format("{:<22} {:>6} {:.4f} ", name, model.epochs.size(), test.auc);
  for (const double auc : test.auc_by_fault) text += fmt::format(" {:>15.4f}", auc);
  return text + fmt::format("  {:>8.6f} {:>9.6f}\n", test.normal, test.anomalous);
}

Json detection_json(const Detection& test) {
  Json faults;
  for (size_t kind = 0; kind < test.auc_by_fault.size(); ++kind) {
    faults[std::string(enum_names<data::Fault>[kind + 1])] = test.auc_by_fault[kind];
  }
  return {{"auc", test.auc},
          {"auc_by_fault", std::move(faults)},
          {"mean_score_normal", test.normal},
          {"mean_score_anomalous", test.anomalous}};
}

Json model_json(const TrainedModel& model) {
  Json json = detection_json(model.test);
  json["parameters_sha256"] = model.model.parameters().sha256();
  Json epochs = Json::array();
  for (const EpochResult& each : model.epochs) {
    epochs.push_back(
        {{"epoch", each.epoch}, {"loss", each.loss}, {"test_auc", each.score.value_or(0)}});
  }
  json["epochs"] = std::move(epochs);
  json["step_us"] = model.step_us ? Json(*model.step_us) : Json();
  json["skipped_batches"] = model.skipped_batches;
  return json;
}

Json model_json(const TrainedModel& model, const Deployed& integers) {
  Json json = model_json(model);
  json["deployed"] = detection_json(integers.test);
  json["deployed"]["verified_samples"] = integers.samples;
  json["deployed"]["mismatches"] = integers.mismatches;
  json["deployed"]["codes_rounded_otherwise_in_float"] = integers.float_codes;
  return json;
}

std::string verified(std::string_view name, const Deployed& integers) {
  return fmt::format(
      "{}: {} samples, {} mismatches between exact training, reference and backend; {} codes "
      "differ from float training\n",
      name, integers.samples, integers.mismatches, integers.float_codes);
}

}  // namespace

std::string report_table(const Settings& settings, const Results& results) {
  std::string text = fmt::format("{:<22} {:>6} {:<7}", "", "epochs", "AUC");
  for (size_t kind = 1; kind < enum_names<data::Fault>.size(); ++kind) {
    text += fmt::format(" {:>15}", enum_names<data::Fault>[kind]);
  }
  text += "  mean score: normal, anomalous\n";
  const std::string bits =
      fmt::format("W{}A{}", settings.weight_bits, settings.activation_bits);
  const auto& [floats, calibrated, trained, calibrated_integers, trained_integers] = results;
  text += row("float", floats, floats.test);
  text += row("calibrated " + bits, calibrated, calibrated.test);
  text += row("calibrated, deployed", calibrated, calibrated_integers.test);
  text += row("trained " + bits, trained, trained.test);
  text += row("trained, deployed", trained, trained_integers.test);
  text += fmt::format("the last {} epochs of the trained model with quantizers\n",
                      settings.qat_epochs);
  text += fmt::format("integer programs of requantization {}\n",
                      to_string_view(settings.requantization));
  return text + verified("calibrated", results.calibrated_integers) +
         verified("trained", results.quantized_integers);
}

std::string report_json(const Settings& settings, int threads, const Results& results) {
  const Json report = {
      {"settings", settings_json(settings, threads)},
      {"float", model_json(results.float_model)},
      {"calibrated", model_json(results.calibrated, results.calibrated_integers)},
      {"trained", model_json(results.quantized, results.quantized_integers)}};
  return report.dump(2) + "\n";
}

}  // namespace qtape::examples::autoencoder
