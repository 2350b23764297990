#include "qtape/examples/train_autoencoder/deployment.h"

namespace qtape::examples::autoencoder {
Deployed deploy(const TrainedModel& model, const data::SpectraSplit& data,
                Requantization requantization, int threads) {
  Deployed result{.program = model.model.integers(requantization),
                  .samples = data.normal.size() + data.anomalous.size()};
  result.test = detect(
      [&](const data::Dataset& samples) { return predict(result.program, samples, threads); },
      data);
  for (const data::Spectra* part : {&data.normal, &data.anomalous}) {
    const Verifier verifier = verify(model.model, part->samples, requantization, threads);
    result.mismatches += verifier.mismatches();
    if (!result.first) result.first = verifier.first_mismatch();
    for (const LayerComparison& layer : verifier.layers()) {
      const auto moved = layer.differences.find(Level::Float);
      if (moved != layer.differences.end()) result.float_codes += moved->second;
    }
  }
  return result;
}

}  // namespace qtape::examples::autoencoder
