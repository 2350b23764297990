// What a run reached: as a table for people, as JSON for other programs.
#pragma once

#include <string>

#include "qtape/examples/train_autoencoder/deployment.h"

namespace qtape::examples::autoencoder {

struct Results {
  TrainedModel float_model;
  TrainedModel calibrated;  ///< the float model with quantizers
  TrainedModel quantized;   ///< trained so
  Deployed calibrated_integers;
  Deployed quantized_integers;
};

/// A row for each model, simulated and as an integer program: the epochs it has seen, AUC, also
/// for each kind of fault alone, and mean scores; then what verification compared.
std::string report_table(const Settings& settings, const Results& results);
/// Settings, and for each model AUCs, mean scores, the epochs, a SHA-256 of its values and the
/// figures of its integer program.
std::string report_json(const Settings& settings, int threads, const Results& results);

}  // namespace qtape::examples::autoencoder
