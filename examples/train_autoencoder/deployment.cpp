#include "qtape/examples/train_autoencoder/deployment.h"

#include <algorithm>

namespace qtape::examples::autoencoder {
namespace {

Detection run(const IntegerProgram& program, const data::SpectraSplit& data, int threads) {
  IntegerSession session(program.with_batch(detector_batch), {.threads = threads});
  return detect({.x = session.input("x"),
                 .run = [&] { session.run(); },
                 .y = session.value<float>(program.outputs()[0])},
                data);
}

void verify(Verifier& verifier, const data::Spectra& spectra) {
  for (int64_t first = 0; first < spectra.size(); first += detector_batch) {
    const int64_t count = std::min(detector_batch, spectra.size() - first);
    auto row = verifier.input().begin();
    for (int64_t i = 0; i < count; ++i) {
      row = std::ranges::copy(spectra.sample(first + i), row).out;
    }
    verifier.run(count);
  }
}

}  // namespace

Deployed deploy(TrainedModel& model, const data::SpectraSplit& data,
                Requantization requantization, int threads) {
  Deployed result{.program = convert(model.network.graph, model.parameters, requantization),
                  .samples = data.normal.size() + data.anomalous.size()};
  result.test = run(result.program, data, threads);
  Verifier verifier(model.network.graph, model.parameters,
                    {.convert = {.requantization = requantization},
                     .batch = detector_batch,
                     .threads = threads});
  verify(verifier, data.normal);
  verify(verifier, data.anomalous);
  result.mismatches = verifier.mismatches();
  result.first = verifier.first_mismatch();
  for (const LayerComparison& layer : verifier.layers()) {
    result.float_codes += layer.float_exact;
  }
  return result;
}

}  // namespace qtape::examples::autoencoder
