// Results of a run, as a table and as JSON.
#pragma once

#include <string>

#include "qtape/examples/train_autoencoder/deployment.h"

namespace qtape::examples::autoencoder {

struct Results {
  TrainedModel float_model;
  TrainedModel calibrated;  ///< the float model with quantizers
  TrainedModel quantized;   ///< trained with quantizers
  Deployed calibrated_integers;
  Deployed quantized_integers;
};

/// Returns a table with one row per model, simulated and as an integer program: number of
/// epochs, AUC, AUC for each kind of fault, and mean scores; followed by the results of
/// verification.
std::string report_table(const Settings& settings, const Results& results);
/// Returns the settings, and for each model AUCs, mean scores, epochs, a SHA-256 of its values
/// and the results of its integer program.
std::string report_json(const Settings& settings, int threads, const Results& results);

}  // namespace qtape::examples::autoencoder
