// Data-dependent initialization of weights and biases.
#pragma once

#include "qtape/data/generated/spectra.h"
#include "qtape/model/model.h"

namespace qtape::examples::autoencoder {

/// Scales and shifts each layer, one after another, so that over the first samples each of its
/// units has mean 0 and deviation 1 (Salimans and Kingma, arXiv 1602.07868, section 3). Units
/// of the bottleneck get mean 1, so that its ReLU passes most values, and those of the last
/// layer get mean and deviation of the feature. Without this, samples become more and more
/// alike from layer to layer, and some of the eight units of the bottleneck are 0 for all of
/// them from the start.
void initialize_by_data(Model& model, const data::Spectra& spectra, int threads);

}  // namespace qtape::examples::autoencoder
